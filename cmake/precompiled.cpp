// The source of a target that has nothing but a precompiled header (precompiled.cmake).
