"""Hydra's configuration tree; a package so that an installed copy finds its yaml."""
