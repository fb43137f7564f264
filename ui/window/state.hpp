// The session as JSON, for tests that compare what the window shows with the command line.
#pragma once

#include <QByteArray>

#include "ui/core/session.hpp"

namespace ui {

QByteArray state_json(const Session& session);

}  // namespace ui
