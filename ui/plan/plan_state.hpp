// The state of the page of a plan as JSON, for tests that compare it with the command line.
#pragma once

#include <QJsonObject>

#include "ui/plan/plan_pane.hpp"

namespace ui {

// The state, the plan as `stepcast plan -o json` has it, the commands, the chosen point, problems
// by field, and where points lie on the screen.
QJsonObject plan_state(PlanPane& pane);

}  // namespace ui
