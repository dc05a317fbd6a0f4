// layer_passes: runs the three passes of a layer as training runs them, and in ways in which errors
// show that training would not report.
//
// A stream runs its tasks after the pass that enqueued them has returned, memory of a closed
// arena::scope is used again, and the passes of several microbatches alternate. A layer that does
// not allow for that gives other results here, bit for bit, than when each task runs immediately.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/ops/deferred_stream.hpp>

namespace parallel::detail {

/// The conditions under which check_layer runs the passes. Each run has one condition, so that an
/// error names one cause.
enum class pass_condition {
  plain,             // each task runs when it is enqueued, and memory keeps what was written
  two_microbatches,  // the passes of another microbatch run between those of the first
  released_memory,   // memory that the layer releases is overwritten immediately
  reused_frames,     // tasks run after their pass, whose local variables have other values by then
  late_inputs,       // tasks run after all passes, and before them inputs have no values
};

/// The results of the three passes.
struct pass_results {
  std::vector<double> output, input_gradient;
  std::vector<std::vector<double>> gradients;  // of each parameter
};

/// The inputs of the three passes.
struct pass_inputs {
  std::vector<double> x, output_gradient;
  std::vector<std::vector<double>> values, gradients;  // of each parameter, before the passes
  bool overwrite_gradients = false;                    // context::overwrite_gradients
};

/// Calls f() with `Bytes` of the stack between its frame and the caller's. Two calls at one depth
/// have their local variables at the same addresses; a call at another depth leaves those alone.
template <std::size_t Bytes, class F>
[[gnu::noinline]] void call_below(F const& f) {
  std::array<std::byte, Bytes> distance;
  std::byte* const volatile end = distance.data();  // volatile: the array stays on the stack
  f();
  static_cast<void>(end);
}

/// The passes of a layer, of which `sequence` rows are one sequence, on an input of `extents`. With
/// `share` the rows are a part of a sequence, as a rank's are under context parallelism.
template <class Layer>
class layer_passes {
 public:
  using stream_type = reference::deferred_stream;

  layer_passes(Layer& layer, shape<2> extents, index sequence, position run_position,
               std::size_t arena_bytes, row_share share = {})
      : layer_(layer),
        extents_(extents),
        sequence_(sequence),
        position_(run_position),
        share_(share),
        first_(arena_bytes),
        second_(arena_bytes) {
    layer.visit_parameters([&](parameter_base<double>& p) { parameters_.push_back(&p); });
    values_.resize(parameters_.size());
  }

  /// The result of the forward pass, whose elements are computed immediately. Throws `error` where
  /// it has another number of rows than the input.
  [[nodiscard]] std::vector<double> output(pass_inputs const& inputs) {
    begin(first_, inputs, reference::task_start::immediate);
    bind_values(inputs, false);
    forward(first_);
    require_shape_of_output(first_);
    return copy_of(first_.output);
  }

  /// Runs all passes. Throws `error` where one gives another shape or writes to what it is given.
  [[nodiscard]] pass_results run(pass_inputs const& inputs, pass_condition condition) {
    using enum pass_condition;
    bool const late = condition == late_inputs, reused = condition == reused_frames;
    auto const start =
        late || reused ? reference::task_start::deferred : reference::task_start::immediate;
    begin(first_, inputs, start);
    bind_values(inputs, late);
    if (late)
      for (auto* numbers : {&first_.x, &first_.output_gradient}) fill_in_task(first_, *numbers);
    if (condition == released_memory)
      for (arena* memory : {&first_.memory, &first_.scratch})
        memory->observe_releases([](std::span<std::byte> released) { overwrite(released); });
    std::vector<microbatch*> microbatches = {&first_};
    if (condition == two_microbatches || reused) {
      auto second_inputs = inputs;
      std::ranges::reverse(second_inputs.x);
      std::ranges::reverse(second_inputs.output_gradient);
      begin(second_, second_inputs, start);
      microbatches.push_back(&second_);
    }
    pass_results results;
    // The frames of another pass would give the local variables values of other types.
    auto const run_pass = [&](void (layer_passes::*pass)(microbatch&), auto const& copy_result) {
      for (microbatch* m : microbatches) {
        bind_gradients(*m);
        call_below<pass_depth>([&] { (this->*pass)(*m); });
      }
      copy_result();
      if (reused) run_tasks();
    };
    run_pass(&layer_passes::forward, [&] {
      require_shape_of_output(first_);
      for (microbatch* m : microbatches) m->scratch.release(0);  // it belongs to other layers now
      first_.stream.enqueue([&] { results.output = copy_of(first_.output); });
    });
    run_pass(&layer_passes::backward_input, [&] {
      require_shape_of_gradient(first_);
      first_.stream.enqueue([&] { results.input_gradient = copy_of(first_.input_gradient); });
    });
    run_pass(&layer_passes::backward_weight, [] {});
    // Tasks have not started, so they write everything again that this overwrites.
    if (late) overwrite({first_.bytes.data(), first_.memory.mark()});
    run_tasks();
    require(first_.x == inputs.x, "check_layer: a pass has overwritten the input");
    require(first_.output_gradient == inputs.output_gradient,
            "check_layer: a pass has overwritten the gradient of the output");
    require(values_ == inputs.values, "check_layer: a pass has overwritten a parameter");
    results.gradients = first_.gradients;
    return results;
  }

 private:
  static constexpr std::size_t pass_depth = std::size_t{32} << 10;
  static constexpr std::size_t tasks_depth = std::size_t{256} << 10;

  /// A microbatch with its own memory, which at first holds no numbers.
  struct microbatch {
    explicit microbatch(std::size_t arena_bytes)
        : bytes(arena_bytes, std::byte{0xff}), scratch_bytes(arena_bytes, std::byte{0xff}) {}

    std::vector<std::byte> bytes, scratch_bytes;
    arena memory, scratch;
    stream_type stream;
    std::vector<double> x, output_gradient;
    std::vector<std::vector<double>> gradients;
    bool overwrite_gradients = false;
    typename Layer::saved state{};
    matrix_view<double> output, input_gradient;
  };

  /// All bits set are not a number.
  static void overwrite(std::span<std::byte> memory) { std::ranges::fill(memory, std::byte{0xff}); }

  [[nodiscard]] static std::vector<double> copy_of(matrix_view<double> view) {
    return {view.data(), view.data() + view.size()};
  }

  static void begin(microbatch& m, pass_inputs const& inputs, reference::task_start start) {
    auto const restart = [](arena& used, std::vector<std::byte>& memory) {
      overwrite({memory.data(), used.peak()});
      used = arena(buffer<std::byte>(nullptr, memory.data(), memory.size()));
    };
    restart(m.memory, m.bytes);
    restart(m.scratch, m.scratch_bytes);
    m.stream = stream_type(start);
    m.x = inputs.x;
    m.output_gradient = inputs.output_gradient;
    m.gradients = inputs.gradients;
    m.overwrite_gradients = inputs.overwrite_gradients;
    m.state = {};
  }

  void bind_values(pass_inputs const& inputs, bool late) {
    values_ = inputs.values;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      parameters_[p]->data = values_[p].data();
      if (late) fill_in_task(first_, values_[p]);
    }
  }

  void bind_gradients(microbatch& m) {
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      parameters_[p]->gradient_data = m.gradients[p].data();
  }

  /// Takes the numbers away, and enqueues a task that brings them back.
  static void fill_in_task(microbatch& m, std::vector<double>& numbers) {
    m.stream.enqueue([&numbers, values = numbers] { std::ranges::copy(values, numbers.begin()); });
    overwrite(std::as_writable_bytes(std::span(numbers)));
  }

  void run_tasks() {
    bind_gradients(first_);
    call_below<tasks_depth>([&] { first_.stream.run(); });
  }

  [[nodiscard]] context<stream_type> context_for(microbatch& m) const {
    context<stream_type> c{m.stream, m.memory, pass::training, position_, sequence_, share_};
    c.overwrite_gradients = m.overwrite_gradients;
    return c;
  }

  // These functions call nothing after the layer's pass, because a call would overwrite the pass's
  // local variables.
  void forward(microbatch& m) {
    auto c = context_for(m);
    c.scratch = &m.scratch;
    m.output = layer_.forward(c, matrix_view<double const>{m.x.data(), extents_}, m.state);
  }
  void backward_input(microbatch& m) {
    auto c = context_for(m);
    m.input_gradient = layer_.backward_input(
        c, matrix_view<double const>{m.output_gradient.data(), m.output.extents()}, m.state);
  }
  void backward_weight(microbatch& m) {
    auto c = context_for(m);
    layer_.backward_weight(c, m.state);
  }

  void require_shape_of_output(microbatch const& m) const {
    require(m.output.extent(0) == extents_[0], "check_layer: forward turned ", extents_[0],
            " rows into ", m.output.extent(0));
  }
  void require_shape_of_gradient(microbatch const& m) const {
    require(m.input_gradient.extents() == extents_, "check_layer: backward_input returned [",
            m.input_gradient.extent(0), ", ", m.input_gradient.extent(1), "] for an input of [",
            extents_[0], ", ", extents_[1], "]");
  }

  Layer& layer_;
  shape<2> extents_;
  index sequence_;
  position position_;
  row_share share_;
  std::vector<parameter_base<double>*> parameters_;
  std::vector<std::vector<double>> values_;
  microbatch first_, second_;
};

}  // namespace parallel::detail
