"""One model that goes round."""
