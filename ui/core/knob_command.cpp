#include "ui/core/knob_command.hpp"

#include <utility>

namespace ui {

KnobCommand::KnobCommand(Session& session, Knobs after, const QString& what, int gesture)
    : QUndoCommand{what},
      session_{session},
      before_{session.knobs()},
      after_{std::move(after)},
      gesture_{gesture} {}

void KnobCommand::undo() {
  session_.apply(before_);
}

void KnobCommand::redo() {
  session_.apply(after_);
}

bool KnobCommand::mergeWith(const QUndoCommand* other) {
  const auto* later = static_cast<const KnobCommand*>(other);
  if (later->gesture_ != gesture_) return false;
  after_ = later->after_;
  return true;
}

}  // namespace ui
