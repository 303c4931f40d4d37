"""A real, if small, model without a key: llama.cpp on loopback, for as long as one chat lasts."""
