"""The engine process: owns torch, the devices and the recorder; speaks to a view over a socket."""
