// gpu_rates: the rates that a GPU reaches in single operations, for comparison with a training
// step: every matrix product of a model's step, attention, copies of memory, and the products
// repeated without a pause for a given time (a short burst is faster than power and heat allow in
// the long run).
//
// Its arguments are "--name value"; a wrong one prints all of them. `--what`: products, attention,
// copy, sustained. The program prints one JSON line. Data are random, because products of zeros run
// faster.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/model/sizes.hpp>
#include <nlohmann/json.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/cuda.hpp>
#include <parallel/ops/cuda/attention/document_tables.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/tensor/head.hpp>

#include "parts/gpu_arguments.hpp"

namespace {

namespace cuda = parallel::cuda;
namespace ops = parallel::ops;
using nlohmann::ordered_json;
using parallel::bf16;
using parallel::index;
using parallel::matrix_view;

/// A matrix product of a step, C [m, n].
struct product {
  std::string name;
  index m, n, k;
  ops::matmul_options options;
  bool has_float_output;  // C is float
  index count_per_step;   // in a step

  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

/// The products of one microbatch of `tokens`. Those of the head run in chunks of rows, of which
/// the last one is smaller.
std::vector<product> products_of(mpt::model_config const& config, index tokens) {
  std::vector<product> out;
  auto const add = [&](std::string const& name, index rows, index width, index depth,
                       index count_per_step) {
    out.push_back({name, rows, width, depth, {.transpose_b = true}, false, count_per_step});
    out.push_back({name + " dX", rows, depth, width, {}, false, count_per_step});
    out.push_back({name + " dW",
                   width,
                   depth,
                   rows,
                   {.transpose_a = true, .accumulate = true},
                   true,
                   count_per_step});
  };
  index const d = config.d_model, layers = config.n_layers;
  add("qkv", tokens, 3 * d, d, layers);
  add("out", tokens, d, d, layers);
  add("up", tokens, 4 * d, d, layers);
  add("down", tokens, d, 4 * d, layers);
  parallel::tensor::head<bf16, parallel::single> exit;
  exit.weight = {"lm_head.weight", {config.vocab_size, d}};
  index const chunk = exit.chunk_rows(tokens, sizeof(bf16));
  add("head", chunk, config.vocab_size, d, tokens / chunk);
  if (tokens % chunk > 0) add("head, last chunk", tokens % chunk, config.vocab_size, d, 1);
  return out;
}

/// Measures the seconds between two points of a stream.
class stopwatch {
 public:
  explicit stopwatch(cuda::stream& s) : stream_(s) {
    cuda::check(cudaEventCreate(&begin_), "cudaEventCreate");
    cuda::check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~stopwatch() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }
  stopwatch(stopwatch const&) = delete;
  stopwatch& operator=(stopwatch const&) = delete;

  template <class Work>
  [[nodiscard]] double measure(Work const& work) {
    cuda::check(cudaEventRecord(begin_, stream_.get()), "cudaEventRecord");
    work();
    cuda::check(cudaEventRecord(end_, stream_.get()), "cudaEventRecord");
    cuda::check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

  /// The median of one `work()` over at least 10 runs and about 0.3 s.
  template <class Work>
  [[nodiscard]] double median(Work const& work) {
    for (int warm_up_run = 0; warm_up_run < 3; ++warm_up_run) static_cast<void>(measure(work));
    std::vector<double> seconds;
    for (double sum = 0; seconds.size() < 10 || (sum < 0.3 && seconds.size() < 2000);
         sum += seconds.back())
      seconds.push_back(measure(work));
    std::ranges::nth_element(seconds,
                             seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
    return seconds[seconds.size() / 2];
  }

 private:
  cuda::stream& stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// Memory of the GPU filled with the same million random numbers repeatedly.
template <class T>
parallel::buffer<T> random_memory(cuda::device const& device, index count, double deviation) {
  parallel::philox const source(3, parallel::stream_id("gpu_rates"));
  std::vector<T> values(std::size_t{1} << 20);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(static_cast<float>(deviation) * source.normal(i));
  auto out = device.allocate<T>(static_cast<std::size_t>(count));
  for (std::size_t offset = 0; offset < out.size(); offset += values.size()) {
    auto const piece = std::min(values.size(), out.size() - offset);
    device.upload(out.span().subspan(offset, piece), std::span<T const>(values).first(piece));
  }
  return out;
}

class rates {
 public:
  explicit rates(bench::gpu_arguments const& args)
      : config_(mpt::named_size(args.text("size"))),
        tokens_(args.number("tokens")),
        length_(args.number("length")),
        document_length_(args.number("document")),
        has_document_sequences_(args.number("sequences") != 0),
        stream_(device_.compute_options()),
        watch_(stream_) {
    if (args.text("form") == "b") config_ = mpt::hub_form(config_);
  }

  ordered_json products() {
    prepare();
    ordered_json rows = ordered_json::array();
    for (auto const& p : products_) {
      double const seconds = watch_.median([&] { run(p); });
      rows.push_back({{"name", p.name},
                      {"m", p.m},
                      {"n", p.n},
                      {"k", p.k},
                      {"times", p.count_per_step},
                      {"microseconds", 1e6 * seconds},
                      {"tflops", 1e-12 * p.operations() / seconds}});
    }
    return rows;
  }

  /// Runs a step's products in turn, each as often as in a step, for this time. Returns the TFLOP/s
  /// of each second.
  ordered_json sustained(double seconds) {
    prepare();
    using clock = std::chrono::steady_clock;
    auto const seconds_since = [](clock::time_point begin) {
      return std::chrono::duration<double>(clock::now() - begin).count();
    };
    double operations = 0;
    index max_count = 0;
    for (auto const& p : products_) {
      operations += static_cast<double>(p.count_per_step) * p.operations();
      max_count = std::max(max_count, p.count_per_step);
    }
    auto const begin = clock::now();
    ordered_json by_second = ordered_json::array();
    while (seconds_since(begin) < seconds) {
      double operation_count = 0, spent = 0;
      while (spent < 1.0) {
        spent += watch_.measure([&] {
          for (index repetition = 0; repetition < max_count; ++repetition)
            for (auto const& p : products_)
              if (repetition < p.count_per_step) run(p);
        });
        operation_count += operations;
      }
      by_second.push_back(1e-12 * operation_count / spent);
    }
    return by_second;
  }

  ordered_json attention() {
    index const heads = config_.n_heads, dim = config_.d_model / heads;
    index const sequences = std::max<index>(1, tokens_ / length_);
    index const row = 3 * heads * dim, width = heads * dim;
    auto const packed = random_memory<bf16>(device_, sequences * length_ * row, 1.0);
    auto const gradient = random_memory<bf16>(device_, sequences * length_ * row, 1.0);
    auto const out = random_memory<bf16>(device_, sequences * length_ * width, 1.0);
    auto const dout = random_memory<bf16>(device_, sequences * length_ * width, 1.0);
    auto const lse = device_.allocate<float>(static_cast<std::size_t>(sequences * heads * length_));
    std::vector<float> slopes;
    if (config_.attn.alibi)
      for (index h = 0; h < heads; ++h)
        slopes.push_back(std::exp2(-8.0F * static_cast<float>(h + 1) / static_cast<float>(heads)));
    auto const documents = documents_of(sequences);
    ops::attention_options options{.scale = 1.0 / std::sqrt(static_cast<double>(dim)),
                                   .alibi_slopes = slopes,
                                   .document_begins = documents.span()};
    auto const section = [&](auto* data, index section_index) {
      return ops::heads_view<std::remove_pointer_t<decltype(data)>>{
          data + section_index * width, sequences, length_, heads, dim, length_ * row, row};
    };
    auto const matrix = [&](auto* data) {
      return ops::heads_view<std::remove_pointer_t<decltype(data)>>{
          data, sequences, length_, heads, dim, length_ * width, width};
    };
    parallel::tensor_view<float, 3> const sums(lse.data(), {sequences, heads, length_});
    bf16 const* const x = packed.data();
    bf16 const* const y = out.data();
    bf16 const* const dy = dout.data();
    auto const run_forward = [&] {
      ops::attention(stream_, matrix(out.data()), sums, section(x, 0), section(x, 1), section(x, 2),
                     options);
    };
    auto const run_backward = [&] {
      ops::attention_backward(
          stream_, ops::attention_backward_arguments<bf16>{.dq = section(gradient.data(), 0),
                                                           .dk = section(gradient.data(), 1),
                                                           .dv = section(gradient.data(), 2),
                                                           .dout = matrix(dy),
                                                           .q = section(x, 0),
                                                           .k = section(x, 1),
                                                           .v = section(x, 2),
                                                           .out = matrix(y),
                                                           .lse = sums,
                                                           .options = options});
    };
    cuda::tune_kernels(stream_, true);
    run_forward();
    run_backward();
    cuda::tune_kernels(stream_, false);
    double const forward = watch_.median(run_forward);
    double const backward = watch_.median(run_backward);
    // operations that the causal mask leaves: 2 d s per token forward, 5 d s backward
    auto const rate = [&](double factor, double seconds) {
      return 1e-12 * factor * static_cast<double>(width) * static_cast<double>(length_) *
             static_cast<double>(sequences * length_) / seconds;
    };
    ordered_json report{{"tokens", sequences * length_},
                        {"length", length_},
                        {"heads", heads},
                        {"dim", dim},
                        {"alibi", !slopes.empty()},
                        {"document", document_length_},
                        {"forward_microseconds", 1e6 * forward},
                        {"forward_tflops", rate(2, forward)},
                        {"backward_microseconds", 1e6 * backward},
                        {"backward_tflops", rate(5, backward)}};
    if (document_length_ == 0 || !has_document_sequences_) return report;
    // the same with each document as its own sequence, which the kernel tables must request
    index const count = sequences * ((length_ + document_length_ - 1) / document_length_);
    options.document_begins = {documents.span(), count};
    auto tables = cuda::tuned_kernels(stream_);
    auto const tuned_entries = tables.attention.entries();
    for (auto const& [problem, plan] : tuned_entries) {
      auto separated = problem;
      separated.max_documents = cuda::document_bound(count, sequences * length_);
      if (problem.documents && separated.max_documents > 0) tables.attention.set(separated, 0);
    }
    try {
      cuda::use_kernels(stream_, tables);
      report["forward_of_sequences_microseconds"] = 1e6 * watch_.median(run_forward);
      report["backward_of_sequences_microseconds"] = 1e6 * watch_.median(run_backward);
    } catch (parallel::error const& refused) {
      report["sequences"] = refused.what();
    }
    return report;
  }

  /// GB/s of copies; bytes read and bytes written both count.
  ordered_json copy() {
    index const count = index{1} << 30;  // 2 GiB of bf16
    auto const from = random_memory<bf16>(device_, count, 1.0);
    auto const to = device_.allocate<bf16>(static_cast<std::size_t>(count));
    auto const bytes = 4.0 * static_cast<double>(count);
    double const by_runtime = watch_.median([&] {
      cuda::check(cudaMemcpyAsync(to.data(), from.data(), from.size() * sizeof(bf16),
                                  cudaMemcpyDeviceToDevice, stream_.get()),
                  "cudaMemcpyAsync");
    });
    index const columns = 4096;  // rows, because flat memory is copied by the runtime
    double const by_kernel = watch_.median([&] {
      ops::copy(stream_, ops::rows_view<bf16>(to.data(), count / columns, columns, columns),
                ops::rows_view<bf16 const>(from.data(), count / columns, columns, columns));
    });
    return {{"runtime", 1e-9 * bytes / by_runtime}, {"kernel", 1e-9 * bytes / by_kernel}};
  }

 private:
  /// The first token of each token's document, in its sequence.
  parallel::buffer<std::int32_t> documents_of(index sequences) {
    std::vector<std::int32_t> begins;
    for (index token = 0; document_length_ > 0 && token < sequences * length_; ++token)
      begins.push_back(
          static_cast<std::int32_t>(token % length_ / document_length_ * document_length_));
    auto out = device_.allocate<std::int32_t>(begins.size());
    device_.upload(out.span(), std::span<std::int32_t const>(begins));
    return out;
  }

  /// Allocates operands that are large enough for every product, and tunes the algorithms.
  void prepare() {
    products_ = products_of(config_, tokens_);
    index a = 0, b = 0, c = 0;
    for (auto const& p : products_) {
      a = std::max(a, p.m * p.k);
      b = std::max(b, p.k * p.n);
      c = std::max(c, p.m * p.n * (p.has_float_output ? 2 : 1));
    }
    a_ = random_memory<bf16>(device_, a, 1.0);
    b_ = random_memory<bf16>(device_, b, 0.02);
    c_ = random_memory<bf16>(device_, c, 1.0);
    cuda::tune_kernels(stream_, true);
    for (auto const& p : products_) run(p);
    cuda::tune_kernels(stream_, false);
  }

  void run(product const& p) {
    auto const view_as_stored = [](bf16 const* data, index rows, index columns, bool transposed) {
      return matrix_view<bf16 const>(
          data, transposed ? parallel::shape<2>{columns, rows} : parallel::shape<2>{rows, columns});
    };
    auto const a = view_as_stored(a_.data(), p.m, p.k, p.options.transpose_a);
    auto const b = view_as_stored(b_.data(), p.k, p.n, p.options.transpose_b);
    if (p.has_float_output)
      ops::matmul(stream_, matrix_view<float>(reinterpret_cast<float*>(c_.data()), {p.m, p.n}), a,
                  b, p.options);
    else
      ops::matmul(stream_, matrix_view<bf16>(c_.data(), {p.m, p.n}), a, b, p.options);
  }

  mpt::model_config config_;
  index tokens_, length_;
  index document_length_;        // in tokens; 0: each sequence is one document
  bool has_document_sequences_;  // documents are also timed as separate sequences
  cuda::device device_;
  cuda::stream stream_;
  stopwatch watch_;
  std::vector<product> products_;
  parallel::buffer<bf16> a_, b_, c_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    bench::gpu_arguments const args(argc, argv,
                                    {{"what", "products"},
                                     {"size", "125m"},
                                     {"form", "b"},
                                     {"tokens", "32768"},
                                     {"length", "2048"},
                                     {"document", "0"},
                                     {"sequences", "0"},
                                     {"seconds", "60"}});
    auto const& kind = args.text("what");
    rates measurement(args);
    ordered_json out{{"what", kind},
                     {"size", args.text("size")},
                     {"form", args.text("form")},
                     {"tokens", args.number("tokens")}};
    if (kind == "products")
      out["products"] = measurement.products();
    else if (kind == "sustained")
      out["tflops_by_second"] = measurement.sustained(static_cast<double>(args.number("seconds")));
    else if (kind == "attention")
      out["attention"] = measurement.attention();
    else if (kind == "copy")
      out["gigabytes_per_second"] = measurement.copy();
    else
      parallel::fail("--what ", kind, ": there are products, sustained, attention and copy");
    std::cout << out.dump() << std::endl;
    return 0;
  } catch (std::exception const& problem) {
    std::cerr << "gpu_rates: " << problem.what() << std::endl;
    return 1;
  }
}
