#include <QAbstractButton>
#include <QAbstractSlider>
#include <QAccessible>
#include <QComboBox>
#include <QLineEdit>
#include <QTemporaryDir>
#include <QtTest/QTest>
#include <random>

#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/timeline/view.hpp"
#include "ui/window/export_view.hpp"
#include "ui/window/main_window.hpp"

namespace ui {
namespace {

std::unique_ptr<MainWindow> opened(const std::string& file) {
  auto window = std::make_unique<MainWindow>();
  window->session().open(QString::fromStdString(sim::test::source_dir() + "/scenarios/" + file));
  window->show();
  REQUIRE(test::until([&] { return !window->session().computing(); }));
  return window;
}

template <class Widget>
Widget* named(const QWidget& window, const QString& name) {
  for (auto* widget : window.findChildren<Widget*>())
    if (widget->accessibleName() == name) return widget;
  return nullptr;
}

}  // namespace

TEST_CASE("Every control of the window has a name that a screen reader can say") {
  const auto window = opened("gpt2-124m-8-h100.yaml");
  for (const QWidget* widget : window->findChildren<QWidget*>()) {
    const bool control = qobject_cast<const QAbstractButton*>(widget) ||
                         qobject_cast<const QAbstractSlider*>(widget) ||
                         qobject_cast<const QComboBox*>(widget) ||
                         qobject_cast<const QLineEdit*>(widget);
    if (!control || QString{widget->objectName()}.startsWith("qt_") || !widget->isVisible())
      continue;
    if (QString{widget->parentWidget()->metaObject()->className()}.contains("ScrollArea")) continue;
    QAccessibleInterface* found =
        QAccessible::queryAccessibleInterface(const_cast<QWidget*>(widget));
    INFO(widget->metaObject()->className()
         << " in " << widget->parentWidget()->metaObject()->className());
    if (qobject_cast<const QAbstractSlider*>(widget) && !qobject_cast<const QSlider*>(widget))
      continue;
    REQUIRE(found);
    CHECK_FALSE(found->text(QAccessible::Name).isEmpty());
  }
}

TEST_CASE("Every view is written as PNG and SVG, tables as CSV too; other endings are refused") {
  const auto window = opened("gpt2-124m-8-h100.yaml");
  const QTemporaryDir folder;
  for (const QString& name : window->view_names()) {
    for (const char* ending : {"png", "svg"}) {
      const QString path = folder.filePath(name + "." + ending);
      CHECK(write_view(*window->view(name), path).toStdString().empty());
      CHECK(QFileInfo{path}.size() > 100);
    }
  }
  CHECK(write_view(*window->view("operators"), folder.filePath("a.csv")).isEmpty());
  for (const char* name : {"full.png", "full.svg", "full.csv"}) {
    const QString path = folder.filePath(name);
    REQUIRE(QFile::link("/dev/full", path));
    CHECK(write_view(*window->view("operators"), path).contains("No space left on device"));
  }
  CHECK(write_view(*window->view("timeline"), folder.filePath("a.csv")).contains("only tables"));
  CHECK(write_view(*window->view("timeline"), folder.filePath("a.bmp")).contains(".png"));
}

TEST_CASE("A click on a chip changes the layout, and the chip of the new value is down") {
  const auto window = opened("llama-3.1-70b-512-h100.yaml");
  QAbstractButton* chip = nullptr;
  for (auto* button : window->findChildren<QAbstractButton*>())
    if (button->accessibleName() == "micro-batch 2") chip = button;
  REQUIRE(chip);
  chip->click();
  REQUIRE(test::until([&] { return !window->session().computing(); }));
  CHECK(window->session().result()->scenario.layout.micro_batch == 2);
  for (auto* button : window->findChildren<QAbstractButton*>())
    if (button->accessibleName() == "micro-batch 2") CHECK(button->isChecked());
}

TEST_CASE("Escape leaves the field for any key, and keys reach the timeline again") {
  const auto window = opened("gpt2-124m-8-h100.yaml");
  auto* key = named<QLineEdit>(*window, "Key to set");
  REQUIRE(key);
  key->setFocus();
  QTest::keyClicks(key, "layout.bucket");
  QTest::keyClick(key, Qt::Key_Escape);
  if (key->hasFocus()) QTest::keyClick(key, Qt::Key_Escape);  // the first closed the list
  CHECK(key->text() == "layout.bucket");
  CHECK_FALSE(key->hasFocus());
}

TEST_CASE("The sweep offers the knob that was turned last") {
  const auto window = opened("mixtral-8x7b-64-h100.yaml");
  const auto* knob = named<QComboBox>(*window, "Knob to sweep");
  REQUIRE(knob);
  window->session().set_knobs({{"cluster.change.node.nics.bandwidth", "x0.5"}}, "nic");
  CHECK(knob->currentText() == "NIC bandwidth");
}

TEST_CASE("A thousand random keys and clicks leave a window that still answers") {
  const auto window = opened("gpt2-124m-8-h100.yaml");
  std::mt19937 random{3};
  const std::array keys{Qt::Key_W,      Qt::Key_S,     Qt::Key_A,           Qt::Key_D,
                        Qt::Key_Period, Qt::Key_Comma, Qt::Key_BracketLeft, Qt::Key_BracketRight,
                        Qt::Key_F,      Qt::Key_R,     Qt::Key_Escape,      Qt::Key_Return,
                        Qt::Key_N,      Qt::Key_Home,  Qt::Key_Up,          Qt::Key_Down,
                        Qt::Key_B};
  QWidget* timeline = &window->timeline();
  for (int i = 0; i < 1000; ++i) {
    const auto roll = random() % 10;
    const QPoint at{static_cast<int>(random() % static_cast<unsigned>(timeline->width())),
                    static_cast<int>(random() % static_cast<unsigned>(timeline->height()))};
    if (roll < 6)
      QTest::keyClick(timeline, keys[random() % keys.size()]);
    else if (roll < 9)
      QTest::mouseClick(timeline, Qt::LeftButton, {}, at);
    else
      window->session().set_knobs({{"layout.micro_batch", std::to_string(1 << random() % 4)}},
                                  "micro");
    if (i % 50 == 0) QCoreApplication::processEvents();
  }
  REQUIRE(test::until([&] { return !window->session().computing(); }));
  CHECK(window->session().result());
}

}  // namespace ui
