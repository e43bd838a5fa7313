"""The book: what its pages print from the code, and what checks them."""
