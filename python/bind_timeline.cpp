#include <pybind11/stl.h>

#include "python/columns.hpp"
#include "python/module.hpp"

namespace stepcast_python {
namespace {

namespace py = pybind11;

// One array of a timeline, which it keeps alive.
template <class T>
struct Column {
  std::shared_ptr<const TimelineColumns> owner;
  const std::vector<T>* values;
};

template <class T>
void add_column(py::module_& module, const char* name) {
  py::class_<Column<T>>(module, name, py::buffer_protocol(),
                        "A column; numpy.asarray() takes it without a copy.")
      .def_buffer([](const Column<T>& column) {
        return py::buffer_info(column.values->data(),
                               static_cast<py::ssize_t>(column.values->size()));
      })
      .def("__len__", [](const Column<T>& column) { return column.values->size(); })
      .def("__getitem__", [](const Column<T>& column, py::ssize_t at) {
        const auto size = static_cast<py::ssize_t>(column.values->size());
        if (at < 0) at += size;
        if (at < 0 || at >= size) throw py::index_error{};
        return (*column.values)[static_cast<std::size_t>(at)];
      });
}

using Owner = std::shared_ptr<const TimelineColumns>;
template <auto Member>
auto column(const Owner& owner) {
  using Value = typename std::remove_cvref_t<decltype((*owner).*Member)>::value_type;
  return Column<Value>{owner, &((*owner).*Member)};
}

py::dict all_columns(const Owner& owner) {
  py::dict columns;
  columns["rank"] = column<&TimelineColumns::rank>(owner);
  columns["represents"] = column<&TimelineColumns::represents>(owner);
  columns["stage"] = column<&TimelineColumns::stage>(owner);
  columns["name"] = column<&TimelineColumns::name>(owner);
  columns["stream"] = column<&TimelineColumns::stream>(owner);
  columns["layer"] = column<&TimelineColumns::layer>(owner);
  columns["micro_batch"] = column<&TimelineColumns::micro_batch>(owner);
  columns["begin_ps"] = column<&TimelineColumns::begin_ps>(owner);
  columns["active_ps"] = column<&TimelineColumns::active_ps>(owner);
  columns["end_ps"] = column<&TimelineColumns::end_ps>(owner);
  return columns;
}

// A class around the shared pointer: pybind11 has no holder of pointers to const.
struct Timeline {
  Owner owner;
};

}  // namespace

void add_timeline(py::module_& module) {
  add_column<std::int32_t>(module, "Int32Column");
  add_column<std::int64_t>(module, "Int64Column");
  py::class_<Timeline>(module, "Timeline",
                       "What ran when: one array per property, a row per operator.")
      .def("__len__", [](const Timeline& it) { return it.owner->rank.size(); })
      .def(
          "columns", [](const Timeline& it) { return all_columns(it.owner); },
          "Every column by its name; times in picoseconds. `name` and `stream` are indices into "
          "`names` and `streams`; `layer` and `micro_batch` are -1 where there is none.")
      .def_property_readonly("names", [](const Timeline& it) { return it.owner->names; })
      .def_property_readonly("streams", [](const Timeline& it) { return it.owner->streams; });
}

py::object timeline_object(const sim::Plan& plan, const sim::Timeline& timeline) {
  return py::cast(Timeline{columns_of(plan, timeline)});
}

}  // namespace stepcast_python
