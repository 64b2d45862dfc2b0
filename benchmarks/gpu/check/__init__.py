"""Random programs of every kernel, compiled anywhere and checked against float64 on a device."""
