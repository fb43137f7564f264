// Names and values of what is selected, in two columns without heads.
#pragma once

#include <QString>
#include <QTableWidget>
#include <utility>
#include <vector>

namespace ui {

class FactsTable : public QTableWidget {
  Q_OBJECT

 public:
  explicit FactsTable(const QString& accessible_name, QWidget* parent = nullptr);
  void set_facts(const std::vector<std::pair<QString, QString>>& facts);

 protected:
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void fit();  // columns into the width, rows to the lines of their texts
};

}  // namespace ui
