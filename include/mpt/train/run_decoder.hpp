// run_decoder: the model of a run, between its steps, reads and writes texts, whatever its layout.
//
// A pass is an evaluation of the stepper: values are gathered where they are sharded, activations
// go from stage to stage. Data ranks may read different texts, or as many as they like: in every
// pass all of them take part, those that have nothing to read without rows, and they ask each other
// before each (one number) whether anybody has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/eval/row_sharing.hpp>
#include <mpt/generate/decoder.hpp>
#include <mpt/train/run_mesh.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/train/statistics_sum.hpp>

namespace mpt {

/// For as long as texts are read. Collective over all ranks of a run, which make it, and call
/// finish(), alike.
template <class T, class Device, class Comm, class Stepper>
class run_decoder {
 public:
  using stream_type = typename Stepper::stream;

  /// What it runs on; all must outlive it.
  struct run_resources {
    model<T, Comm> const& net;
    Device& device;
    Stepper& step;
    run_mesh<Device, Comm>& mesh;
    stream_type& compute;
    arena& memory;
    std::vector<train::stage_range> stages;  // of this rank
  };

  run_decoder(run_resources const& resources, decoder_room room)
      : resources_(resources),
        temporaries_(resources.memory),
        texts_(resources.net, resources.device, resources.memory, room, resources.stages,
               {[this](microbatch const& batch) {
                  static_cast<void>(somebody_reads(true));
                  pass(batch);
                },
                [this](std::span<float> logits) { join(logits); }}) {
    if (shares_model())  // made now: later some ranks read when others do not
      static_cast<void>(resources_.mesh.control_of_model());
  }
  run_decoder(run_decoder const&) = delete;
  run_decoder& operator=(run_decoder const&) = delete;

  /// This data rank's. The ranks that share its model must read the same.
  [[nodiscard]] decoder<T, Device, Comm>& texts() { return texts_; }

  /// Takes part in what others read until nobody reads any more.
  void finish() {
    while (somebody_reads(false)) pass({});
  }

  /// How data ranks divide what all of them are to read.
  [[nodiscard]] icl::row_sharing sharing() {
    return {resources_.mesh.data_rank(), resources_.mesh.data_ranks(),
            [this](std::string const& text) { return gather(text); }};
  }

  /// finish(), then every data rank's text by data rank, on every rank.
  [[nodiscard]] std::vector<std::string> gather(std::string const& text) {
    finish();
    auto const of_all =
        parallel::gather_texts(resources_.mesh.control(), resources_.mesh.control_stream(), text);
    std::vector<std::string> out(static_cast<std::size_t>(resources_.mesh.data_ranks()));
    for (std::size_t rank = 0; rank < of_all.size(); ++rank)
      out[static_cast<std::size_t>(
          resources_.mesh.layout()
              .template position<parallel::axis::replicate, parallel::axis::shard>(
                  static_cast<int>(rank)))] = of_all[rank];
    return out;
  }

 private:
  [[nodiscard]] bool shares_model() {
    auto& ranks = resources_.mesh.ranks();
    return ranks.tensor.size() * ranks.pipeline.size() > 1;
  }

  [[nodiscard]] bool somebody_reads(bool here) {
    if (resources_.mesh.data_ranks() == 1) return here;
    std::int64_t readers = here ? 1 : 0;
    resources_.mesh.control()
        .all_reduce(resources_.mesh.control_stream(), std::span(&readers, 1),
                    parallel::reduction::sum)
        .wait();
    return readers > 0;
  }

  /// One microbatch, and as many without rows as the pipeline's schedule asks for.
  void pass(microbatch const& batch) {
    std::vector<microbatch> all(static_cast<std::size_t>(resources_.mesh.ranks().pipeline.size()));
    all.front() = batch;
    train::statistics_sum<double> none;
    resources_.step.add_evaluation(resources_.compute, resources_.memory,
                                   std::span<microbatch const>(all), none);
  }

  void join(std::span<float> logits) {
    if (!shares_model()) return;
    resources_.mesh.control_of_model()
        .all_reduce(resources_.mesh.control_stream(), logits, parallel::reduction::sum)
        .wait();
  }

  run_resources resources_;
  arena::scope temporaries_;
  decoder<T, Device, Comm> texts_;
};

}  // namespace mpt
