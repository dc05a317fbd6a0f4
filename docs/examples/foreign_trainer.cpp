// One strategy alone, parallel/pipeline/, in someone else's trainer: plain SGD over raw arrays,
// with no unit, layer or stepper, gets its layers spread over three ranks; the weights keep every
// bit.
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include <parallel/comm/threads/run.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/pipeline/execute.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/pipeline/verify.hpp>

namespace example {

// What the trainer had: y = tanh(W x), layer after layer, for one sample at a time.
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
float step_alone(std::array<matrix, layers>& w) {
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

// What it needs now: where activations lie, and what to compute when told.
namespace pipeline = parallel::pipeline;
struct one_layer {
  pipeline::plan const& plan;
  matrix &w, dw = {};
  float sum = 0;                       // of losses, on the last rank
  std::map<int, row> x = {}, dx = {};  // by boundary buffer
  std::map<int, row> y = {}, dy = {};  // by slot
  parallel::host::stream stream{{}};

  auto& compute() { return stream; }
  bool is_empty(int) const { return false; }
  std::span<float> input(pipeline::microbatch_task const& at) { return x[at.boundary]; }
  std::span<float> input_gradient(pipeline::microbatch_task const& at) { return dx[at.boundary]; }
  std::span<float> output(pipeline::microbatch_task const& at) { return y[at.slot]; }
  std::span<float> output_gradient(pipeline::microbatch_task const& at) { return dy[at.slot]; }
  void run(pipeline::step const& s) {
    auto &own_x = x[s.at.boundary], &own_dx = dx[s.at.boundary];
    auto &own_y = y[s.at.slot], &own_dy = dy[s.at.slot];
    stream.enqueue([&, kind = s.computes, m = s.at.microbatch] {
      if (plan.rank == 0) own_x = numbers(m);  // nothing arrives
      if (kind == pipeline::action_kind::backward)
        return backward(w, own_x, own_y, own_dy, own_dx, dw);
      forward(w, own_x, own_y);
      if (plan.rank == layers - 1) sum += loss(own_y, numbers(100 + m), own_dy);
    });
  }
};

}  // namespace example
int main() {
  using namespace example;
  std::array<matrix, layers> alone;
  for (int i = 0; auto& w : alone)
    for (row& r : w) r = numbers(50 + i++);
  auto spread = alone, again = alone;
  float const start = step_alone(again);
  float one = 0, three = 0;
  for (int step = 0; step < steps; ++step) one = step_alone(alone);
  parallel::threads::run(layers, [&](parallel::threads::communicator& comm) {
    auto const schedule = pipeline::one_f_one_b(layers, samples);
    auto const plans = pipeline::lower(schedule);
    pipeline::require_sound(schedule, plans);  // on all ranks alike, before anything runs
    auto const& plan = plans[static_cast<std::size_t>(comm.rank())];
    one_layer own{plan, spread[static_cast<std::size_t>(comm.rank())]};
    pipeline::p2p_streams links(comm);
    for (int step = 0; step < steps; ++step) {
      own.sum = 0, own.dw = {};
      auto const messages = pipeline::execute(plan, links, own);
      own.stream.synchronize();
      update(own.w, own.dw);
    }
    if (comm.rank() == layers - 1) three = own.sum;
  });
  std::printf("loss %.6f alone, %.6f on three ranks\n", one, three);
  return alone == spread && one == three && one < start / 5 ? 0 : 1;
}
