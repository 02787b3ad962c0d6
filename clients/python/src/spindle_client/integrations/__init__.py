"""Integrations with other packages; each is imported by itself and needs its package only when it is used."""
