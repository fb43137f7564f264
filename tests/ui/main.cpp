// Runs Catch2's tests with a QApplication around them.
#include <QApplication>
#include <QStyleFactory>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

int main(int argc, char** argv) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication application{argc, argv};
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  QApplication::setOrganizationName("stepcast-test");
  return Catch::Session().run(argc, argv);
}
