"""Protocol × Schema × n → Guarantee: the only room that judges privacy."""
