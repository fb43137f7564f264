#include "ui/window/file_role.hpp"

#include <QFile>
#include <stdexcept>

#include "sim/config/file_kind.hpp"
#include "sim/config/foreign/foreign_format.hpp"
#include "sim/config/gzip.hpp"
#include "sim/interop/job_kind.hpp"
#include "sim/trace/read_trace.hpp"
#include "ui/validate/run_file.hpp"

namespace ui {
namespace {

constexpr qint64 head = 1 << 20;  // enough to tell; only records and traces are longer

std::string head_of(const QString& path) {
  QFile file{path};
  if (!file.open(QIODevice::ReadOnly))
    throw std::runtime_error{path.toStdString() + ": " + file.errorString().toStdString()};
  return file.read(head).toStdString();
}

std::optional<sim::FileKind> kind_of(const std::string& text, const std::string& path) {
  try {
    return sim::kind_of(sim::Document::parse_yaml(text, path));
  } catch (const sim::InputError&) {
    return std::nullopt;
  }
}

// JSON that is cut off by `head` shows its kind in its first keys.
bool is_record(const std::string& text) {
  return text.find("\"format\"") != std::string::npos &&
         text.find("\"gpus_per_node\"") != std::string::npos;
}

}  // namespace

OpenedFile role_of(const QString& path) {
  const std::string text = head_of(path);
  const std::string name = path.toStdString();
  if (sim::is_gzip(text) || sim::is_sqlite(text)) return {.role = FileRole::run};
  if (path.endsWith(".json", Qt::CaseInsensitive) && (is_trace(text) || is_record(text)))
    return {.role = FileRole::run};
  if (const std::optional<sim::JobKind> job = sim::job_kind_of(name, text))
    return {.role = FileRole::job, .job = *job};
  if (const sim::ForeignFormat* format = sim::foreign_format_of(text, true))
    return {.role = FileRole::other,
            .what = std::string{format->name} + "; " + std::string{format->instead}};
  const std::optional<sim::FileKind> kind = kind_of(text, name);
  if (kind == sim::FileKind::step_record) return {.role = FileRole::run};
  if (kind && kind != sim::FileKind::scenario)
    return {.role = FileRole::other, .what = sim::kind_text(*kind)};
  return {};
}

}  // namespace ui
