// The layouts of a search as points: step time against memory, GPUs or cost, with the front joined.
#pragma once

#include <QComboBox>
#include <QWidget>

#include "ui/charts/scatter.hpp"
#include "ui/choose/search_job.hpp"

namespace ui {

enum class Against : int { memory, gpus, cost };

class Pareto : public QWidget {
  Q_OBJECT

 public:
  explicit Pareto(QWidget* parent = nullptr);
  void clear(const QString& why_empty);
  void show(SearchedPtr searched, const std::vector<SearchPoint>& points, SearchResultPtr result);
  void select(std::optional<std::uint32_t> index);  // of the candidate
  Against against() const;
  // points_on_screen() are the layouts that fit, where they are on the screen.
  std::vector<std::pair<QPoint, sim::Evaluation>> points_on_screen(int most) const;
  Scatter& scatter() { return *scatter_; }
  // front() is of the newest result, for the axis at hand: candidates in the order in which they
  // are joined.
  std::vector<std::uint32_t> front() const;

 Q_SIGNALS:
  void chosen(const sim::Evaluation& evaluation);
  void activated(const sim::Evaluation& evaluation);
  void against_changed();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void refresh();
  void refresh_axes();
  void refresh_lines();
  double y_of(const sim::Evaluation& evaluation) const;
  QPointF place_of(const SearchPoint& point) const;
  QString describe(const ScatterAt& at) const;
  const SearchPoint* point_at(const ScatterAt& at) const;

  Scatter* scatter_;
  QComboBox* against_;
  SearchedPtr searched_;
  std::vector<SearchPoint> points_;
  SearchResultPtr result_;
  std::vector<std::vector<std::size_t>> sets_;  // indices of points_
  std::optional<std::uint32_t> selected_;
  bool device_in_sight_ = true;
  double times_ = 1;          // what is shown over what is on the y axis
  double unit_ = 1;           // seconds of a unit of the x axis
  double from_ = 0, to_ = 1;  // of lines over the whole width, zoomed out too
};

}  // namespace ui
