// The state of the page of layouts as JSON, for tests that compare it with the command line.
#pragma once

#include <QJsonObject>

#include "ui/choose/choose_pane.hpp"

namespace ui {

// The state of the search, its ranking and front as `stepcast search -o json` has them
// ("step_time_ps", "peak_mem_bytes", "gpus"), the chosen layout, and where points lie on the
// screen.
QJsonObject choose_state(ChoosePane& pane);

}  // namespace ui
