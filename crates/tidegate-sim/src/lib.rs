//! Deterministic simulation of the engine.
