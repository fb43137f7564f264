// Which operator of the model a site of a program is.
#pragma once

#include "sim/model/model.hpp"
#include "sim/program/program.hpp"

namespace real {

// Whether the subject of an action is an index into Program::sites: the action is of a model
// operator.
bool subject_is_site(sim::Action action);
const sim::Block& block_of(const sim::Model& model, const sim::Site& site);
const sim::ModelOp& model_op(const sim::Model& model, const sim::Site& site);

}  // namespace real
