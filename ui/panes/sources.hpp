// The grounds of a forecast: what is not validated, notes, parameter sets and their sources.
#pragma once

#include <QTextBrowser>

#include "ui/core/session.hpp"

namespace ui {

class SourcesPane : public QTextBrowser {
  Q_OBJECT

 public:
  explicit SourcesPane(Session& session, QWidget* parent = nullptr);

 private:
  void refresh();
  Session& session_;
};

}  // namespace ui
