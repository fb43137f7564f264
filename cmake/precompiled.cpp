// Of a target that has nothing but a precompiled header (precompiled.cmake).
