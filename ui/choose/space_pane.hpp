// The input of a search: each dimension fixed, listed or open; and what counts as a result.
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QToolButton>
#include <QWidget>
#include <vector>

#include "ui/choose/search_job.hpp"
#include "ui/choose/space_table.hpp"
#include "ui/core/session.hpp"

class QFormLayout;

namespace ui {

class SpacePane : public QWidget {
  Q_OBJECT

 public:
  explicit SpacePane(QWidget* parent = nullptr);
  // show_scenario() shows what the scenario itself says; what was typed is forgotten.
  void show_scenario(const sim::SearchSpecification& specification);
  // show_values() shows what "open" means, once it is known.
  void show_values(const std::vector<std::vector<std::string>>& values);
  // overrides() are changes against the scenario, as "search.key=value"; unset() are keys that were
  // emptied.
  std::vector<std::string> overrides() const;
  std::vector<std::string> unset() const;
  // Sets a field as if it were typed; an empty text opens it. Only known keys.
  void set(const QString& key, const QString& text);
  QStringList keys() const;

 Q_SIGNALS:
  void changed();
  void submitted();  // Enter in a field

 private:
  struct Field {
    QString key;
    bool dimension = false;
    bool rare = false;
    QString unset;    // placeholder of an empty field
    QString of_file;  // what the scenario says
    QLineEdit* edit = nullptr;
    QToolButton* words = nullptr;  // a menu of all words
    QLabel* state = nullptr;       // "open", "fixed", "listed"
    QWidget* row = nullptr;
  };
  Field& add_field(QFormLayout& form, const QString& key, const QString& title, const QString& help,
                   const std::vector<std::string>& words);
  void add_words(Field& field, const std::vector<std::string>& words);
  void refresh_state(const Field& field);
  void show_rare(bool shown);

  QFormLayout* form_;
  std::vector<Field> fields_;
  std::vector<bool> applies_;
  QToolButton* more_;
};

}  // namespace ui
