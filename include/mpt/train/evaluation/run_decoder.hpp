// run_decoder: lets the model of a run read and write texts between steps, in any layout.
//
// A pass is an evaluation by the stepper: values are gathered where they are sharded, activations
// go from stage to stage. Data ranks may read different texts and different numbers of texts: all
// of them take part in every pass, ranks that have nothing to read with no rows, and before each
// pass they find out with one all-reduce of a number whether any rank reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mpt/eval/icl_run.hpp>
#include <mpt/generate/decoder.hpp>
#include <mpt/train/setup/run_mesh.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/train/results/statistics_sum.hpp>

namespace mpt {

/// Lives while texts are read. All ranks of a run construct it and call finish() collectively.
template <class T, class Device, class Comm, class Session>
class run_decoder {
 public:
  /// The parts of the run that it uses; all must outlive it.
  struct run_resources {
    model<T, Comm> const& net;
    Session& session;
    run_mesh<Device, Comm>& mesh;
    std::vector<train::stage_range> stages;  ///< stages of this rank
  };

  run_decoder(run_resources const& resources, decoder_room room)
      : resources_(resources),
        temporaries_(resources.session.memory()),
        texts_(resources.net, resources.session.device(), resources.session.memory(), room,
               resources.stages,
               {[this](microbatch const& batch) {
                  static_cast<void>(any_rank_reads(true));
                  pass(batch);
                },
                [this](std::span<float> logits) { sum_logits(logits); }}) {
    if (shares_model())  // created here, as later not all ranks read at the same time
      static_cast<void>(resources_.mesh.control_of_model());
  }
  run_decoder(run_decoder&&) = delete;

  /// The decoder of this data rank. The ranks that share its model must read the same texts.
  [[nodiscard]] decoder<T, Device, Comm>& texts() { return texts_; }

  /// Takes part in the passes of other ranks until no rank reads any more.
  void finish() {
    while (any_rank_reads(false)) pass({});
  }

  /// How data ranks divide the rows that they read together.
  [[nodiscard]] eval::row_sharing sharing() {
    return {resources_.mesh.data_rank(), resources_.mesh.data_ranks(),
            [this](std::string const& text) { return gather(text); }};
  }

  /// Calls finish(), then returns the text of every data rank, by data rank, on every rank.
  [[nodiscard]] std::vector<std::string> gather(std::string const& text) {
    finish();
    auto const texts =
        parallel::gather_texts(resources_.mesh.control(), resources_.mesh.control_stream(), text);
    std::vector<std::string> out(static_cast<std::size_t>(resources_.mesh.data_ranks()));
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
      out[static_cast<std::size_t>(
          resources_.mesh.layout()
              .template position<parallel::axis::replicate, parallel::axis::shard>(
                  static_cast<int>(rank)))] = texts[rank];
    return out;
  }

 private:
  [[nodiscard]] bool shares_model() {
    auto& ranks = resources_.mesh.ranks();
    return ranks.tensor.size() * ranks.pipeline.size() > 1;
  }

  [[nodiscard]] bool any_rank_reads(bool this_rank_reads) {
    if (resources_.mesh.data_ranks() == 1) return this_rank_reads;
    std::int64_t readers = this_rank_reads ? 1 : 0;
    resources_.mesh.control()
        .all_reduce(resources_.mesh.control_stream(), std::span(&readers, 1),
                    parallel::reduction::sum)
        .wait();
    return readers > 0;
  }

  /// Runs one microbatch, filled up with empty ones to as many as the pipeline's schedule needs.
  void pass(microbatch const& batch) {
    std::vector<microbatch> microbatches(
        static_cast<std::size_t>(resources_.mesh.ranks().pipeline.size()));
    microbatches.front() = batch;
    train::statistics_sum<double> ignored;
    resources_.session.add_evaluation(microbatches, ignored);
  }

  void sum_logits(std::span<float> logits) {
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
