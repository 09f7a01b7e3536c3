"""AR, SD and SSD: one round loop each, behind one interface."""
