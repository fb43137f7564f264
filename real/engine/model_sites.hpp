// Which operator of the model a site of a program is.
#pragma once

#include "sim/model/model.hpp"
#include "sim/program/program.hpp"

namespace real {

// Of the actions of model operators: the subject is an index into Program::sites.
bool subject_is_site(sim::Action action);
const sim::Block& block_of(const sim::Model& model, const sim::Site& site);
const sim::ModelOp& model_op(const sim::Model& model, const sim::Site& site);

}  // namespace real
