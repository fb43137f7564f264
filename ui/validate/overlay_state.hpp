// The state of the overlay as JSON, for tests that compare it with the command line.
#pragma once

#include <QJsonObject>

#include "ui/validate/overlay_pane.hpp"

namespace ui {

// The causes as `stepcast explain -o json` has them ("cause", "time_ps"), what shows that it is not
// the same job, the sentence, operator and kernel that are shown. Empty: nothing is explained.
QJsonObject overlay_state(OverlayPane& pane);

}  // namespace ui
