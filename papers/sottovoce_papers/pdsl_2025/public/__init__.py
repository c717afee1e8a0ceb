"""The public halves of PDSL and the algorithms that it is compared with."""
