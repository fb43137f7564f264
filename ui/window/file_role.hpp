// The role of a file that is opened or dropped: what the window does with it.
#pragma once

#include <QString>
#include <optional>
#include <string>

#include "sim/interop/job_file.hpp"

namespace ui {

enum class FileRole {
  scenario,  // its step is forecast; also a file of no kind that is known: the reader says why
  run,       // a record or a trace: held against the forecast
  job,       // of a training framework: imported
  other      // one of our other files
};

struct OpenedFile {
  FileRole role = FileRole::scenario;
  sim::JobKind job{};  // of a job
  std::string what{};  // of another file: what it is, and what it is good for
};

// role_of() goes by the content of the file. Throws std::runtime_error where it cannot be read.
OpenedFile role_of(const QString& path);

}  // namespace ui
