// model_check: checks whether a model does what it declares, by running its passes once on the meta
// device with marked memory before the first step or evaluation: every parameter has addresses of
// its own, and operations report what they read and write.
//
// The check refuses, with the names of parameter, unit and part: a parameter that no unit holds;
// one that another part computes with than visit_units says (it would be reduced too early, or be
// absent under ZeRO-3); a gradient that is added to where the layer declares that it replaces it,
// that is overwritten where it must be added to, or that is never written; a value that is read
// where it need not be present any more; an exit that leaves its gradient unwritten; along the
// tensor axis a result or gradient that is computed from slices and not summed, a gradient that
// differs between ranks which hold the same parameter and is not declared to, rows that are
// gathered though the model divides none, a loss that several ranks count, and dropouts of two
// parts that have one name. The check sees operations of one's own when they are called by
// ops::custom (parallel/ops/custom.hpp), or have a form on the meta device that calls
// stream.touch(...). Cost: two microbatches on the meta device, once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/device/meta/device.hpp>
#include <parallel/device/meta/host_access_watch.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/train/checks/known_memory.hpp>
#include <parallel/train/setup/declarations.hpp>
#include <parallel/train/setup/stage.hpp>

namespace parallel::train {

/// Runs the passes of one microbatch over marked parameters, as the first of a step and as a later
/// one, on rank `tensor_rank` of the tensor axis. The destructor restores the parameters' bindings.
template <class Model>
class marked_passes final : public meta::access_observer {
 public:
  using element = typename Model::element;
  using gradient_type = accumulate_t<element>;
  using parameter_type = parameter_base<element>;

  marked_passes(Model& model, int tensor_rank, int tensor_ranks)
      : model_(model), tensor_rank_(tensor_rank), tensor_ranks_(tensor_ranks) {
    model.visit_units([&](std::string const& unit, auto& layer, std::vector<part> const& parts,
                          std::vector<parameter_type*> const& uses) {
      auto const own_parts = uses.empty() ? parts : std::vector{parts.front()};
      visit_parameters_of(layer, [&](parameter_type& p) { mark(p, p, unit, own_parts); });
      for (std::size_t i = 0; i < uses.size(); ++i)
        visit_parameters_of(layer,
                            [&](parameter_type& p) { mark(*uses[i], p, unit, {parts[i + 1]}); });
    });
    stream_.set_observer(this);
  }
  marked_passes(marked_passes&&) = delete;
  ~marked_passes() {
    for (auto const& [p, values, gradients, is_fresh, stride] : bindings_) {
      p->data = values;
      p->gradient_data = gradients;
      p->is_fresh_gradient = is_fresh;
      p->source_stride = stride;
    }
  }

  /// Throws one of the refusals that the head of this file lists.
  void run(typename Model::microbatch const& batch) {
    if (share_of(model_, batch).whole != 0) require_divisible(sequence_division::by_context);
    {
      meta::host_access_watch const watch;
      for (bool const first : {true, false}) run(batch, first);
    }
    gradients_.for_each(0, ~std::uintptr_t{0}, [&](use const& u) {
      if (!u.declared->trainable || written_.contains(u.parameter)) return;
      require(read_.contains(u.parameter), use_name(u), " is trained, but ", names_of_parts(u),
              " computes nothing with it; use it there, or take it out of visit_parameters");
      fail(use_name(u), " is trained, but the backward pass of ", names_of_parts(u),
           " never writes its gradient; add to gradient() there (in ops::custom: "
           "updates(view)), or freeze the parameter");
    });
  }

  /// The rows whose loss this rank counts.
  [[nodiscard]] loss_rows counted_rows() const { return counted_rows_; }

  /// Called for every operation of two microbatches: it builds a message only to refuse.
  void operation(meta::observed_operation const& observed) override {
    auto const arguments = observed.arguments;
    variation<element> in;
    for (auto const& a : arguments) {
      if (a.elements == 0) continue;
      if (!a.is_bound() && a.is_numeric)
        fail(part_name(), " computes with a parameter of ", a.elements,
             " elements that no unit holds; show it in its layer's visit_parameters and the layer "
             "in the model's visit_units, which show for this part ",
             units_of_part(), " (or a view of the microbatch is null)");
      values_.for_each(a.begin, a.end, [&](use const& u) {
        require_use(u);
        read_.insert(u.parameter);
        if (!without_values_.empty())
          fail(use_name(u), " is read by ", without_values_, " of ", part_name(),
               ", where values need not be there; keep what it needs of them in ",
               part_ == embed ? "the forward pass" : "forward or backward_input");
        if (!u.parameter->whole_extents.empty()) in.sliced_parameter = u.parameter;
      });
      if (a.reads) require_written(a);
      if (a.reads) in.add(variation_of(a));
    }
    note_counting(arguments, in);
    for (auto const& a : arguments) {
      if (!a.writes || a.elements == 0) continue;
      if (overlap(a, dx_)) dx_written_ = true;
      bool gradient = false;
      gradients_.for_each(a.begin, a.end, [&](use const& u) {
        gradient = true;
        require_gradient(u, a.reads, in);
      });
      if (!gradient) memory_.set(a.begin, a.end, in);
    }
  }

  /// Two layers may not draw the same numbers; one layer that several parts share does.
  void random_numbers(std::uint32_t operation) override {
    auto const blocks = static_cast<part>(model_.num_blocks());
    auto const layer_of = [&](part p) -> void const* {
      return p >= 0 && p < blocks ? &model_.at(static_cast<std::size_t>(p)) : nullptr;
    };
    part const first = drawn_.try_emplace(operation, part_).first->second;
    require(first == part_ || (layer_of(first) != nullptr && layer_of(first) == layer_of(part_)),
            name_of_part(first, model_.num_blocks()), " and ", part_name(),
            " draw the same random numbers, since their dropouts have one name; give each its own "
            "(stream_id(\"block.0.dropout\") in block 0, say)");
  }

  void exchange(std::string_view axis, meta::exchange_kind kind, meta::memory_access out,
                meta::memory_access in) override {
    require_written(in);
    auto known = variation_of(in);
    if (axis == axis::tensor::name) {
      require(kind != meta::exchange_kind::all_gather || tensor_rank_ == 0 ||
                  known.sliced_parameter || first_row_ > 0,
              part_name(),
              " gathers rows of the tensor ranks, as a region does with .sequence = true, but by "
              "the model's share(batch) all of them begin with the same one; give it rows(batch) "
              "by region.rows_outside and share(batch) with .first_row = region.first_row_outside");
      if (kind == meta::exchange_kind::reduce_scatter)
        require_divisible(sequence_division::by_tensor);
      if (kind != meta::exchange_kind::other) known = {};
      known.rows = known.rows || kind == meta::exchange_kind::reduce_scatter;
    }
    if (overlap(out, dx_)) dx_written_ = true;
    memory_.set(out.begin, out.end, known);
  }

 private:
  using addresses = std::pair<std::uintptr_t, std::uintptr_t>;  // the first address, and the end

  [[nodiscard]] static bool overlap(meta::memory_access const& a, addresses const& range) {
    return a.begin < range.second && a.end > range.first;
  }

  void run(typename Model::microbatch const& batch, bool first) {
    auto memory = arena::from_addresses(std::uintptr_t{1} << 56);
    auto c = context_of(model_, stream_, memory, pass::training, {}, batch);
    c.overwrite_gradients = first_ = first;
    first_row_ = c.share.first_row;
    c.scratch = &memory;
    auto const blocks = static_cast<part>(model_.num_blocks());
    stage_activations<Model> activations;
    activations.blocks.assign(model_.num_blocks(), {});
    auto const saved = [&](part p) -> auto& {
      return activations.blocks[static_cast<std::size_t>(p)];
    };
    auto const block = [&](part p) -> auto& { return model_.at(static_cast<std::size_t>(p)); };
    if constexpr (has_shared_activations<Model>) {
      activations.shared = model_.make_shared_activations(c, batch, 0, blocks);
      for (part p = 0; p < blocks; ++p) model_.attach(activations.shared, p, saved(p));
    }
    part_ = embed;
    without_values_ = {};
    dx_ = {};
    matrix_view<element const> x = model_.embed(c, batch);
    require_summed(x, "result", "put tensor::reduce after the layer");
    for (part_ = 0; part_ < blocks; ++part_) {
      x = block(part_).forward(c, x, saved(part_));
      require_summed(x, "result", "put tensor::reduce after the layer");
    }
    c.scratch = nullptr;
    auto const dx = c.template allocate<element, 2>({model_.rows(batch), model_.width()});
    count_loss(c, batch, x, dx);
    matrix_view<element const> gradient = dx;
    require_summed(gradient, "input gradient", "put tensor::gather before the layer");
    while (part_-- > 0) {
      gradient = block(part_).backward_input(c, gradient, saved(part_));
      require_summed(gradient, "input gradient", "put tensor::gather before the layer");
      without_values_ = "backward_weight";
      block(part_).backward_weight(c, saved(part_));
      without_values_ = {};
    }
    without_values_ = "enter_backward";
    model_.enter_backward(c, batch, gradient);
  }

  /// Runs the exit: ranks that have the same rows must not all add their loss.
  template <class Context>
  void count_loss(Context& c, typename Model::microbatch const& batch, matrix_view<element const> x,
                  matrix_view<element> dx) {
    statistics<loss_type<element>> sums;
    auto const begin = reinterpret_cast<std::uintptr_t>(&sums);
    sums_ = {begin, begin + sizeof sums};
    loss_.reset();
    counted_elements_ = 0;
    auto const gradient = meta::access_of(matrix_view<element const>(dx));
    dx_ = {gradient.begin, gradient.end};
    dx_written_ = false;
    model_.head_loss(c, batch, x, dx, sums);
    sums_ = {};
    counted_rows_ = !loss_ && sums.tokens == 0 ? loss_rows::none
                    : loss_ && loss_->rows     ? loss_rows::local
                                               : loss_rows::whole;
    bool const divided = (loss_ && loss_->rows) || variation_of(meta::access_of(x)).rows ||
                         (loss_ && counted_elements_ < static_cast<std::size_t>(x.extent(0)));
    require(tensor_rank_ == 0 || divided || (!loss_ && sums.tokens == 0), part_name(),
            ": head_loss adds its loss and tokens on all ", tensor_ranks_,
            " tensor ranks, which see the same rows, so each counts ", tensor_ranks_,
            " times; add to sums where the region's rank() is 0 alone");
  }

  /// Records what adds to the sums of the exit: it writes there or, as ops::sum, nowhere.
  void note_counting(std::span<meta::memory_access const> arguments, variation<element> const& in) {
    auto const writes = [](meta::memory_access const& a) { return a.writes && a.elements > 0; };
    bool const counts = std::ranges::none_of(arguments, writes) ||
                        std::ranges::any_of(arguments, [&](auto const& a) {
                          return writes(a) && overlap(a, sums_);
                        });
    if (!counts || sums_.second == 0) return;
    if (!loss_) loss_.emplace();
    loss_->add(in);
    for (auto const& a : arguments)
      if (a.reads) counted_elements_ = std::max(counted_elements_, a.elements);
  }

  /// A use of a parameter by one part, or by parts that share its layer; `declared` has the
  /// parameter's name and replication.
  struct use {
    parameter_type const* parameter;
    parameter_type const* declared;
    std::string unit;
    std::vector<part> parts;
  };
  struct binding {
    parameter_type* parameter;
    element* values;
    gradient_type* gradients;
    bool is_fresh_gradient;
    index source_stride;
  };

  void mark(parameter_type& p, parameter_type const& declared, std::string const& unit,
            std::vector<part> const& parts) {
    bindings_.push_back({&p, p.data, p.gradient_data, p.is_fresh_gradient, p.source_stride});
    p.is_fresh_gradient = false;
    p.source_stride = 0;
    auto const bytes = static_cast<std::uintptr_t>(p.size());
    auto const take = [&](std::size_t size) {
      auto const begin = next_;
      next_ += bytes * size + 64;
      next_ -= next_ % 64;
      return begin;
    };
    auto const values = take(sizeof(element)), gradients = take(sizeof(gradient_type));
    values_.set(values, values + bytes * sizeof(element), {&p, &declared, unit, parts});
    gradients_.set(gradients, gradients + bytes * sizeof(gradient_type),
                   {&p, &declared, unit, parts});
    p.data = reinterpret_cast<element*>(values);
    p.gradient_data = reinterpret_cast<gradient_type*>(gradients);
  }

  [[nodiscard]] variation<element> variation_of(meta::memory_access const& a) const {
    variation<element> out;
    memory_.for_each(a.begin, a.end, [&](auto const& known) { out.add(known); });
    return out;
  }

  [[nodiscard]] std::string part_name() const { return name_of_part(part_, model_.num_blocks()); }

  [[nodiscard]] std::string units_of_part() {
    std::string out;
    model_.visit_units(
        [&](std::string const& unit, auto& layer, std::vector<part> const& parts, auto const&) {
          if (std::ranges::find(parts, part_) == parts.end()) return;
          out += concat(out.empty() ? "" : "; ", "unit \"", unit, "\":");
          visit_parameters_of(layer, [&](parameter_type const& p) { out += concat(" ", p.name); });
        });
    return out.empty() ? "nothing" : out;
  }

  [[nodiscard]] std::string names_of_parts(use const& u) const {
    std::string out;
    for (part const p : u.parts)
      out += concat(out.empty() ? "" : ", ", name_of_part(p, model_.num_blocks()));
    return out;
  }

  [[nodiscard]] static std::string use_name(use const& u) {
    return concat("unit \"", u.unit, "\": parameter \"", u.declared->name, "\"");
  }

  /// Checks before a read that the exit's result has been written.
  void require_written(meta::memory_access const& a) const {
    if (dx_written_ || !overlap(a, dx_)) return;
    auto const exit = static_cast<part>(model_.num_blocks());
    require(part_ != exit, part_name(),
            ": head_loss reads dx before it has written there; write the gradient of the summed "
            "loss first");
    fail(name_of_part(exit, model_.num_blocks()),
         ": head_loss never writes dx; write the gradient of the summed loss there when dx is not "
         "empty, with ops::copy, say, or what is called by ops::custom");
  }

  /// Ranks hold some rows of each sequence: all layers of the blocks must be right there.
  void require_divisible(sequence_division division) const {
    static constexpr std::string_view names[] = {"context parallelism", "sequence parallelism"};
    auto const layer = layer_of_whole_sequences<typename Model::block>(division);
    require(layer.empty(), "with ", names[static_cast<std::size_t>(division)],
            " a rank holds some rows of each sequence, and layer ", layer,
            " of the model's blocks does not say that its results are the same there; where no row "
            "of its results depends on another row of its input, declare in it static constexpr "
            "bool takes_divided_sequences = true");
  }

  void require_use(use const& u) const {
    if (std::ranges::find(u.parts, part_) == u.parts.end())
      fail(use_name(u), " is used by ", part_name(), ", but visit_units says by ",
           names_of_parts(u),
           "; give the unit the part that computes with it, or the parameter its own unit");
  }

  void require_gradient(use const& u, bool added, variation<element> const& in) {
    require_use(u);
    require(
        !first_ || !added || !u.parameter->replaces_gradient || u.parameter->shares_gradient ||
            written_.contains(u.parameter),
        use_name(u), " declares replaces_gradient, but its layer adds to the gradient where ",
        "context::overwrites(parameter) holds; overwrite it there, or leave the declaration out");
    require((first_ && !u.parameter->shares_gradient) || added, use_name(u),
            ": its layer overwrites the gradient, to which a microbatch after a step's first, and "
            "a part that another shares it with, must add; read what is there too (in "
            "ops::custom: updates(view)), unless context::overwrites(parameter) holds");
    written_.insert(u.parameter);
    auto const& replication = u.declared->replication;
    require(
        tensor_ranks_ == 1 || replication.ranks == 1 || replication.partial || !in.is_possible(),
        use_name(u), " is the same on ", replication.ranks,
        " tensor ranks, but its gradient is not, since ",
        in.sliced_parameter != nullptr
            ? concat("it comes of their slices of ", in.sliced_parameter->name)
            : std::string("each sees other rows"),
        "; declare it with replicated({.ranks = ", replication.ranks,
        ", .partial = true}), or sum the gradient first");
  }

  void require_summed(matrix_view<element const> x, char const* kind, char const* remedy) const {
    if (tensor_ranks_ == 1) return;
    auto const known = variation_of(meta::access_of(x));
    require(known.sliced_parameter == nullptr, part_name(), ": its ", kind,
            " comes of this rank's slice of parameter \"",
            known.sliced_parameter == nullptr ? std::string() : known.sliced_parameter->name,
            "\" and is not summed over the ", tensor_ranks_, " tensor ranks; ", remedy);
  }

  Model& model_;
  int tensor_rank_, tensor_ranks_;
  meta::stream stream_;
  part part_ = embed;                // the part that computes
  std::string_view without_values_;  // the pass that may not read parameters' values
  bool first_ = true;                // whether the microbatch is the first of a step
  index first_row_ = 0;              // the first of the microbatch's rows on this rank
  std::uintptr_t next_ = std::uintptr_t{1}
                         << 57;  // beyond all real addresses, and those of the arena
  std::vector<binding> bindings_;
  known_memory<use> values_, gradients_;
  known_memory<variation<element>> memory_;
  std::set<parameter_type const*> read_;
  std::map<std::uint32_t, part> drawn_;  // the part that draws an operation's random numbers first
  loss_rows counted_rows_ = loss_rows::unknown;
  std::set<parameter_type const*> written_;  // parameters whose gradients were written
  addresses sums_ = {};                      // of the loss, while it is added up
  addresses dx_ = {};                        // of the exit's result, likewise
  bool dx_written_ = false;
  std::optional<variation<element>> loss_;  // what was added to the loss
  std::size_t counted_elements_ = 0;        // the most elements of one such operation
};

/// Checks for a stepper that its parameters have values, and once that its model is as declared.
class model_check {
 public:
  /// `seed`: the seed of the values; none: they come from a checkpoint, say.
  void mark_initialised(std::optional<std::uint64_t> seed = {}) {
    initialised_ = true;
    seed_ = seed;
  }
  [[nodiscard]] std::optional<std::uint64_t> seed() const { return seed_; }

  void require_initialised() const {
    require(initialised_,
            "the model's parameters have no values yet; call stepper::initialise("
            "seed) before the first step, or load a checkpoint (parallel/checkpoint/stepper.hpp)");
  }
  /// Tries the first microbatch that has rows.
  template <class Model>
  void before_passes(Model& model, std::span<typename Model::microbatch const> batches,
                     int tensor_rank, int tensor_ranks, int context_ranks) {
    require_initialised();
    for (auto const& batch : batches)
      require(context_ranks == 1 || model.rows(batch) == 0 || model.sequence(batch) == 1 ||
                  share_of(model, batch).whole != 0,
              "the model's share(batch) says that a rank has whole sequences, but ", context_ranks,
              " ranks along the context axis divide them; give share(batch) and sequence(batch) by "
              "context_parallel::sequence_partition, and microbatches the rows that it picks");
    if (tensor_ranks == 1)  // else a rank can have some rows of a sequence
      for (auto const& batch : batches) require_whole_sequences(model, batch);
    if (checked_) return;
    auto const tried =
        std::ranges::find_if(batches, [&](auto const& batch) { return model.rows(batch) > 0; });
    if (tried == batches.end()) return;
    marked_passes<Model> passes(model, tensor_rank, tensor_ranks);
    passes.run(*tried);
    counted_rows_ = passes.counted_rows();
    checked_ = true;
  }
  /// The rows that ranks compare in the first steps.
  [[nodiscard]] loss_rows counted_rows() const {
    return has_counted_tokens_ ? loss_rows::unknown : counted_rows_;
  }

  /// Checks after a step that the model counts the tokens that its loss is a sum over.
  void after_step(std::int64_t tokens) {
    require(has_counted_tokens_ || tokens > 0,
            "the first step has counted no tokens: its batch has none that ",
            "are trained on, or head_loss does not add to sums.tokens those of its losses");
    has_counted_tokens_ = true;
  }

 private:
  /// The rows of a microbatch on this rank are equally many for each of its sequences.
  template <class Model>
  static void require_whole_sequences(Model const& model, typename Model::microbatch const& batch) {
    index const rows = model.rows(batch), sequence = model.sequence(batch);
    require(rows == 0 || (sequence > 0 && rows % sequence == 0), "a microbatch has ", rows,
            " rows, of which the model's sequence(batch) says that ", sequence,
            " are a sequence; give whole sequences");
  }

  bool initialised_ = false;
  std::optional<std::uint64_t> seed_;
  bool checked_ = false;
  loss_rows counted_rows_ = loss_rows::unknown;
  bool has_counted_tokens_ = false;
};

}  // namespace parallel::train
