// A layout of a search as the scenario of the window.
#pragma once

#include "ui/choose/layout_job.hpp"
#include "ui/core/session.hpp"

namespace ui {

// Whether the search is of the scenario that the session shows, knobs included.
bool is_of(const SearchAsked& asked, const Session& session);

// The knobs that make the layout of a scenario: those alone that change it, if that gives the same,
// else every one.
Knobs knobs_of(const LayoutFacts& facts, const sim::Layout& now);

// Sets them, as one entry of the undo stack; of an older scenario, which is opened again, on top
// of it. Throws InputError, where files have changed.
void open_layout(Session& session, const LayoutFacts& facts);

}  // namespace ui
