#include "ui/core/theme.hpp"

#include <algorithm>
#include <cmath>

namespace ui {
namespace {

std::array<QColor, sim::ink_count> inks() {
  std::array<QColor, sim::ink_count> colours;
  for (std::size_t i = 0; i < colours.size(); ++i)
    colours[i] = QColor{QLatin1String{sim::ink_legend[i].colour.data(),
                                      static_cast<qsizetype>(sim::ink_legend[i].colour.size())}};
  return colours;
}

Theme make_light() {
  Theme theme;
  theme.ground = "#ffffff";
  theme.panel = "#f3f4f6";
  theme.text = "#1b1f24";
  theme.muted = "#59636e";
  theme.grid = "#d8dce1";
  theme.accent = "#0060a8";
  theme.good = "#00704f";
  theme.bad = "#b3261e";
  theme.warn = "#8a5300";
  theme.selection = "#0060a8";
  theme.ink = inks();
  theme.memory = {QColor{"#0072b2"}, QColor{"#56b4e9"}, QColor{"#009e73"},
                  QColor{"#f0e442"}, QColor{"#d55e00"}, QColor{"#cc79a7"}};
  theme.parts = {QColor{"#0072b2"}, QColor{"#f0e442"}, QColor{"#e69f00"}, QColor{"#009e73"},
                 QColor{"#d55e00"}, QColor{"#cc79a7"}, QColor{"#b9bec5"}, QColor{"#56b4e9"}};
  return theme;
}

// The two inks that vanish on a dark ground are lightened; the rest is the same everywhere.
Theme make_dark() {
  Theme theme = make_light();
  theme.dark = true;
  theme.ground = "#14171b";
  theme.panel = "#1e2227";
  theme.text = "#e8eaed";
  theme.muted = "#a3acb6";
  theme.grid = "#343a42";
  theme.accent = "#6cb6ff";
  theme.good = "#4fd1a5";
  theme.bad = "#ff8a80";
  theme.warn = "#f2b75c";
  theme.selection = "#6cb6ff";
  theme.ink[static_cast<std::size_t>(sim::Ink::forward)] = "#3a9bdc";
  theme.ink[static_cast<std::size_t>(sim::Ink::weight_backward)] = "#6f8f7f";
  theme.ink[static_cast<std::size_t>(sim::Ink::optimizer)] = "#c9ced6";
  theme.parts[0] = "#3a9bdc";
  theme.parts[6] = "#6b737d";
  return theme;
}

double luminance(const QColor& colour) {
  const auto linear = [](double channel) {
    return channel <= 0.03928 ? channel / 12.92 : std::pow((channel + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) +
         0.0722 * linear(colour.blueF());
}

}  // namespace

const Theme& light_theme() {
  static const Theme theme = make_light();
  return theme;
}

const Theme& dark_theme() {
  static const Theme theme = make_dark();
  return theme;
}

const Theme& theme_of(const QWidget& widget) {
  return widget.palette().color(QPalette::Base).lightness() < 128 ? dark_theme() : light_theme();
}

QPalette palette_of(const Theme& theme) {
  QPalette palette;
  palette.setColor(QPalette::Window, theme.panel);
  palette.setColor(QPalette::WindowText, theme.text);
  palette.setColor(QPalette::Base, theme.ground);
  palette.setColor(QPalette::AlternateBase, theme.panel);
  palette.setColor(QPalette::Text, theme.text);
  palette.setColor(QPalette::PlaceholderText, theme.muted);
  palette.setColor(QPalette::Button, theme.dark ? QColor{"#2a2f36"} : QColor{"#e8eaee"});
  palette.setColor(QPalette::ButtonText, theme.text);
  palette.setColor(QPalette::BrightText, theme.bad);
  palette.setColor(QPalette::Highlight, theme.accent);
  palette.setColor(QPalette::HighlightedText, text_on(theme.accent));
  palette.setColor(QPalette::Link, theme.accent);
  palette.setColor(QPalette::ToolTipBase, theme.panel);
  palette.setColor(QPalette::ToolTipText, theme.text);
  palette.setColor(QPalette::Mid, theme.grid);
  palette.setColor(QPalette::Light, theme.dark ? QColor{"#343a42"} : QColor{"#ffffff"});
  palette.setColor(QPalette::Dark, theme.dark ? QColor{"#0c0e11"} : QColor{"#9aa2ab"});
  palette.setColor(QPalette::Shadow, theme.dark ? QColor{"#000000"} : QColor{"#767f89"});
  for (const QPalette::ColorRole role :
       {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
    palette.setColor(QPalette::Disabled, role, theme.muted);
  return palette;
}

double contrast(const QColor& a, const QColor& b) {
  const double x = luminance(a);
  const double y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

QColor text_on(const QColor& ground) {
  return contrast(ground, Qt::black) >= contrast(ground, Qt::white) ? Qt::black : Qt::white;
}

}  // namespace ui
