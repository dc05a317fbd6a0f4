// See loaded_model.hpp.
#include <inputs/loaded_model.hpp>

#include <mpt/eval/evaluate.hpp>
#include <mpt/generate/model_decoder.hpp>
#include <mpt/model/model.hpp>
#include <mpt/model/replicas.hpp>
#include <mpt/train/setup/plain_attention_note.hpp>
#include <parallel/train/weights.hpp>

#include <inputs/with_replicas.hpp>
#include "devices.hpp"

namespace {

template <class T, class Device, class Comm>
class local_model final : public apps::loaded_model {
 public:
  /// All arguments must outlive the model.
  local_model(mpt::model_source const& source, Device& device, mpt::replicas<Device, Comm>& ranks)
      : device_(device),
        ranks_(ranks),
        stream_(device.compute_options()),
        net_(apps::on_every_rank(
            [&] { return mpt::model<T, Comm>(source.config(), ranks.groups()); })),
        weights_(net_, device) {
    source.load(weights_, device);
  }

  [[nodiscard]] int replica() const override { return ranks_.index(); }
  [[nodiscard]] int replicas() const override { return ranks_.count(); }
  [[nodiscard]] std::vector<std::string> gather(std::string const& text) override {
    return ranks_.gather(text);
  }
  [[nodiscard]] std::unique_ptr<mpt::text_model> texts(mpt::decoder_room room) override {
    return std::make_unique<mpt::model_decoder<T, Device, Comm>>(net_, device_, stream_, room,
                                                                 ranks_.model_ranks());
  }
  [[nodiscard]] mpt::evaluation_result evaluate(
      batch_reader const& next, std::function<void(std::int64_t)> const& seen) override {
    return mpt::evaluate(net_, device_, stream_, next, seen, &ranks_.ranks());
  }
  [[nodiscard]] std::string attention_note() override { return mpt::plain_attention_note(stream_); }

 private:
  Device& device_;
  mpt::replicas<Device, Comm>& ranks_;
  typename Device::stream_type stream_;
  mpt::model<T, Comm> net_;
  parallel::train::weights<T> weights_;
};

template <class T>
void load(apps::model_request const& request, parallel::any_communicator& ranks,
          parallel::shared_deadline const& deadline, apps::placement const& rank_placement,
          std::function<void(apps::loaded_model&)> const& work) {
  apps::with_device(request.device, [&]<class Device>(Device& device, auto const&) {
    apps::with_replicas(ranks, device, request.tensor, deadline, rank_placement,
                        [&]<class Comm>(mpt::replicas<Device, Comm>& replicas) {
                          local_model<T, Device, Comm> model(request.source, device, replicas);
                          work(model);
                        });
  });
}

}  // namespace

void apps::with_loaded_model(model_request const& request, parallel::any_communicator& ranks,
                             parallel::shared_deadline const& deadline,
                             placement const& rank_placement,
                             std::function<void(loaded_model&)> const& work) {
  if (request.bf16)
    load<parallel::bf16>(request, ranks, deadline, rank_placement, work);
  else
    load<float>(request, ranks, deadline, rank_placement, work);
}
