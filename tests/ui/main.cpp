// Runs Catch2's tests with a QApplication around them.
#include <QApplication>
#include <QStyleFactory>

#include "tests/run_catch.hpp"

int main(int argc, char** argv) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication application{argc, argv};
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  QApplication::setOrganizationName("stepcast-test");
  return run_tests(argc, argv);
}
