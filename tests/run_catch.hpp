#pragma once

// run_tests() runs Catch2's tests with the arguments of a program and gives its exit status.
int run_tests(int argc, char** argv);
