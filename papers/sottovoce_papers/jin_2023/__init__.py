"""One shared model that devices update in turn: Jin, He & Dai 2023, with and without replacement."""
