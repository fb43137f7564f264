// A shared library with one function.
extern "C" int opened_answer();
extern "C" int opened_answer() {
  return 42;
}
