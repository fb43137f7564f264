// A change of knobs that can be undone.
#pragma once

#include <QUndoCommand>

#include "ui/core/session.hpp"

namespace ui {

class KnobCommand : public QUndoCommand {
 public:
  // `gesture` above 0: merges with the command before it of the same gesture.
  KnobCommand(Session& session, Knobs after, const QString& what, int gesture);

  void undo() override;
  void redo() override;
  int id() const override { return gesture_ > 0 ? gesture_ : -1; }
  bool mergeWith(const QUndoCommand* other) override;

 private:
  Session& session_;
  Knobs before_, after_;
  int gesture_;
};

}  // namespace ui
