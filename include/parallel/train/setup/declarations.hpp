// check_declarations: checks before any memory is taken whether the units that a model's
// visit_units shows can be trained at all: their names, parts and copies.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <parallel/core/parameter.hpp>
#include <parallel/train/model.hpp>

namespace parallel::train {

/// The name of a part: "the entry (part -1)", "block 2 (part 2)" or "the exit (part 4)".
[[nodiscard]] inline std::string name_of_part(part p, std::size_t blocks) {
  if (p == embed) return concat("the entry (part ", p, ")");
  if (p == static_cast<part>(blocks)) return concat("the exit (part ", p, ")");
  return concat("block ", p, " (part ", p, ")");
}

/// Names of all parameters that a model shows.
template <class Model>
[[nodiscard]] std::set<std::string> parameter_names(Model& model) {
  std::set<std::string> out;
  model.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
    visit_parameters_of(layer, [&](auto const& p) { out.insert(p.name); });
  });
  return out;
}

namespace detail {

/// Whether two slices of a tensor have no element in common.
template <class T>
[[nodiscard]] bool apart(parameter_base<T> const& a, parameter_base<T> const& b) {
  if (a.whole_extents.empty() || a.tensor_extents() != b.tensor_extents()) return false;
  if (a.extents.size() > 1 && (a.first_column + a.extents[1] <= b.first_column ||
                               b.first_column + b.extents[1] <= a.first_column))
    return true;
  return std::ranges::none_of(a.rows, [&](row_range x) {
    return std::ranges::any_of(b.rows, [&](row_range y) {
      return x.begin < y.begin + y.count && y.begin < x.begin + x.count;
    });
  });
}

}  // namespace detail

/// Throws when a parameter has no name or another's, when a tied parameter has two names, when a
/// unit has no part, too many, or one that is not the model's, or when one of `tensor_ranks`
/// neighbours holds all of a parameter and does not declare that the others do.
template <class Model>
void check_declarations(Model& model, int tensor_ranks) {
  using parameter_type = parameter_base<typename Model::element>;
  auto const blocks = model.num_blocks();
  std::set<std::string> units;
  std::map<std::string, std::vector<std::pair<parameter_type const*, std::string>>> known;
  model.visit_units([&](std::string const& unit, auto& layer, std::vector<part> const& parts,
                        std::vector<parameter_type*> const& uses) {
    require(units.insert(unit).second, "visit_units shows two units named \"", unit,
            "\"; give each its own name");
    require(!parts.empty() && (uses.empty() || parts.size() == 1 + uses.size()), "unit \"", unit,
            "\": visit_units gives ", parts.size(), " parts for ", 1 + uses.size(),
            " uses; name the part that computes with it, and one more for each tied use; or, "
            "without tied uses, all parts that compute with the layer itself");
    for (std::size_t i = 1; i < parts.size() && uses.empty(); ++i)
      require(parts[i - 1] < parts[i], "unit \"", unit, "\": visit_units gives part ", parts[i],
              " after part ", parts[i - 1],
              " for a layer that both compute with; give each part once, in their order");
    for (part const p : parts)
      require(embed <= p && p <= static_cast<part>(blocks), "unit \"", unit,
              "\": visit_units names part ", p, ", the model has ", embed, " (entry) to ", blocks,
              " (exit)");
    require(std::ranges::find(uses, nullptr) == uses.end(), "unit \"", unit,
            "\": visit_units gives a null pointer as a tied use; give the parameter that the other "
            "part has, or none");
    visit_parameters_of(layer, [&](parameter_type const& p) {
      for (auto const* const use : uses)  // another pipeline stage starts from the use's own name
        require(use->name == p.name, "unit \"", unit, "\": parameter \"", p.name,
                "\" is tied to one named \"", use->name,
                "\"; give both one name, from which their initial values follow");
      require(!p.name.empty(), "unit \"", unit, "\": a parameter of ", p.size(),
              " elements has no name; give each one of its own: its initial values and its place "
              "in checkpoints follow from it");
      auto& same_name = known[p.name];
      for (auto const& [other, its_unit] : same_name)
        require(detail::apart(p, *other), "unit \"", unit, "\": parameter \"", p.name,
                "\" has the name of one of unit \"", its_unit,
                "\"; give it another: both would begin with the same values and be one tensor in "
                "checkpoints");
      same_name.emplace_back(&p, unit);
      require(!p.whole_extents.empty() || p.replication.ranks == tensor_ranks, "unit \"", unit,
              "\": parameter \"", p.name, "\" is whole on each of ", tensor_ranks,
              " tensor ranks but is declared to be on ", p.replication.ranks,
              "; say so with replicated(region.replication_outside()), or keep a slice of it "
              "(parallel/tensor/slices.hpp)");
    });
  });
}

}  // namespace parallel::train
