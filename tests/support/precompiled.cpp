// The program that has the precompiled header of all tests.
int main() {}
