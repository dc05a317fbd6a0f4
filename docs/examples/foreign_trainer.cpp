// Pipelines alone, in another trainer: plain SGD over raw arrays, without the library's units,
// layers or stepper. Its layers are distributed over three ranks by step plans that have no units;
// the weights stay equal bit for bit.
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include <parallel/comm/threads/run.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/train/step/lower_step.hpp>
#include <parallel/train/step/run_step.hpp>
#include <parallel/train/step/verify_step.hpp>

namespace example {

// The code that the trainer had: y = tanh(W x), layer after layer, one sample at a time.
constexpr std::size_t width = 8;
constexpr int layers = 3, samples = 10, steps = 200;
using row = std::array<float, width>;
using matrix = std::array<row, width>;

row numbers(int seed) {
  row out;
  for (int i = 0; float& x : out) x = static_cast<float>((seed * 31 + ++i * 17) % 23) / 23 - 0.5F;
  return out;
}
void forward(matrix const& w, row const& x, row& y) {
  for (std::size_t r = 0; r < width; ++r) {
    float sum = 0;
    for (std::size_t c = 0; c < width; ++c) sum += w[r][c] * x[c];
    y[r] = std::tanh(sum);
  }
}
void backward(matrix const& w, row const& x, row const& y, row const& dy, row& dx, matrix& dw) {
  dx = {};
  for (std::size_t r = 0; r < width; ++r)
    for (std::size_t c = 0; c < width; ++c) {
      dx[c] += dy[r] * (1 - y[r] * y[r]) * w[r][c];
      dw[r][c] += dy[r] * (1 - y[r] * y[r]) * x[c];
    }
}
float loss(row const& y, row const& target, row& dy) {  // half the squared distance
  float sum = 0;
  for (std::size_t i = 0; i < width; ++i) dy[i] = y[i] - target[i];
  for (float const d : dy) sum += d * d / 2;
  return sum;
}
void update(matrix& w, matrix const& dw) {
  for (std::size_t r = 0; r < width; ++r)
    for (std::size_t c = 0; c < width; ++c) w[r][c] -= 0.3F * dw[r][c] / samples;
}
float train_step(std::array<matrix, layers>& w) {
  std::array<matrix, layers> dw{};
  std::array<row, layers + 1> x, dx;
  float sum = 0;
  for (int s = 0; s < samples; ++s) {
    x[0] = numbers(s);
    for (std::size_t l = 0; l < layers; ++l) forward(w[l], x[l], x[l + 1]);
    sum += loss(x[layers], numbers(100 + s), dx[layers]);
    for (std::size_t l = layers; l-- > 0;) backward(w[l], x[l], x[l + 1], dx[l + 1], dx[l], dw[l]);
  }
  for (std::size_t l = 0; l < layers; ++l) update(w[l], dw[l]);
  return sum;
}

// The code that it needs now: the places of the activations, and the computation of one pass.
namespace pipeline = parallel::pipeline;
namespace train = parallel::train;
using comm_type = parallel::threads::communicator;
using parallel::host::stream;
struct one_layer {
  comm_type& comm;
  matrix &w, dw = {};
  float sum = 0;                       // the sum of losses
  std::map<int, row> x = {}, dx = {};  // by boundary buffer
  std::map<int, row> y = {}, dy = {};  // by slot

  bool is_empty(int) const { return false; }
  std::span<float> input(pipeline::microbatch_task const& task) { return x[task.boundary]; }
  std::span<float> input_gradient(pipeline::microbatch_task const& task) {
    return dx[task.boundary];
  }
  std::span<float> output(pipeline::microbatch_task const& task) { return y[task.slot]; }
  std::span<float> output_gradient(pipeline::microbatch_task const& task) { return dy[task.slot]; }

  void compute(train::action const& a, stream& compute_stream) {
    if (a.kind != train::action_kind::pass || a.model_part == train::embed) return;
    auto &layer_x = x[a.task.boundary], &layer_dx = dx[a.task.boundary];
    auto &layer_y = y[a.task.slot], &layer_dy = dy[a.task.slot];
    compute_stream.enqueue([&, kind = a.pass, part = a.model_part, m = a.task.microbatch] {
      if (part == layers) {  // the model's exit
        sum += loss(layer_y, numbers(100 + m), layer_dy);
        return;
      }
      if (part == 0) layer_x = numbers(m);  // the first rank receives no input
      if (kind == train::pass_kind::backward)
        backward(w, layer_x, layer_y, layer_dy, layer_dx, dw);
      else
        forward(w, layer_x, layer_y);
    });
  }
  // Without units a plan has one exchange besides its messages: the sums over all ranks.
  void exchange(train::action const&, stream& exchanges, std::vector<parallel::request>& requests) {
    requests.push_back(comm.all_reduce(exchanges, std::span(&sum, 1), parallel::reduction::sum));
  }
};

// The plans of all ranks, proved before anything runs. The stage of a rank is one layer.
std::vector<train::step_plan> make_plans() {
  std::vector<train::step_plan> plans;
  for (auto const& tasks : pipeline::lower(pipeline::one_f_one_b(layers, samples))) {
    train::stage_range const stage{tasks.rank, tasks.rank + 1, tasks.rank == 0,
                                   tasks.rank == layers - 1};
    plans.push_back(train::lower_step(tasks, {stage}, {}, {}));
  }
  train::require_runs(plans);
  return plans;
}

}  // namespace example
int main() {
  using namespace example;
  std::array<matrix, layers> single_weights;
  for (int i = 0; auto& w : single_weights)
    for (row& r : w) r = numbers(50 + i++);
  auto pipeline_weights = single_weights, initial_weights = single_weights;
  float const initial_loss = train_step(initial_weights);
  float single_loss = 0, pipeline_loss = 0;
  for (int step = 0; step < steps; ++step) single_loss = train_step(single_weights);
  auto const plans = make_plans();
  parallel::threads::run(layers, [&](comm_type& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    stream compute, exchanges;
    train::step_streams<stream, stream> const streams{.compute = compute, .reductions = &exchanges};
    one_layer program{comm, pipeline_weights[rank]};
    pipeline::p2p_streams links(comm);
    for (int step = 0; step < steps; ++step) {
      program.sum = 0, program.dw = {};
      auto const requests = train::run_step(plans[rank], streams, links, program);
      compute.synchronize();
      update(program.w, program.dw);
    }
    if (rank == 0) pipeline_loss = program.sum;
  });
  std::printf("loss %.6f alone, %.6f on three ranks\n", single_loss, pipeline_loss);
  return single_weights == pipeline_weights && single_loss == pipeline_loss &&
                 single_loss < initial_loss / 5
             ? 0
             : 1;
}
