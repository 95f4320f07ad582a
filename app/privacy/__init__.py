"""What updates give away: a gradient-inversion attack on full, partial and sparse ones."""
