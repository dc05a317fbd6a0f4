#include <mpt/train/data/example_batches.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>

#include <mpt/finetune/packing_ratio.hpp>

namespace mpt {
namespace {

/// The average number of examples in a row of `loader`, in batches of `rows` rows.
[[nodiscard]] double packing_ratio_of(loader_config const& loader,
                                      std::span<std::uint32_t const> lengths, std::size_t rows) {
  auto const& packing = loader.finetuning->packing;
  if (!packing) return 1;
  if (packing->ratio) return *packing->ratio;
  auto const length = static_cast<std::size_t>(loader.max_seq_len);
  return loader.shuffle
             ? finetune::auto_packing_ratio_of_shuffled(lengths, loader.shuffle_seed, rows, length)
             : finetune::auto_packing_ratio(lengths, rows, length);
}

/// The rows that `bins` describe.
[[nodiscard]] sequences rows_of(example_set const& set, std::span<finetune::bin const> bins,
                                index length) {
  return sequences(finetune::make_rows(
      set.examples, bins, {.length = static_cast<std::size_t>(length), .pad_id = set.pad_id}));
}

}  // namespace

index example_batches::batches_per_epoch() const {
  return static_cast<index>(order_.batches_per_epoch());
}

sequences example_batches::at(index batch) {
  auto const bins = order_.batch_rows(static_cast<std::size_t>(batch));
  auto const size = [](auto n) { return static_cast<std::size_t>(n); };
  auto const length = static_cast<index>(
      finetune::row_length(bins, size(max_length_), trimming_, size(batch), size(granule_)));
  tokens_ = 0;
  for (auto const& bin : bins) tokens_ += static_cast<std::int64_t>(bin.tokens);
  padded_tokens_ = static_cast<std::int64_t>(bins.size()) * length;
  return rows_of(*set_,
                 std::span(bins).subspan(static_cast<std::size_t>(share_.begin),
                                         static_cast<std::size_t>(share_.size())),
                 length);
}

finetune::batch_order_options example_batches::order_options(data_config const& data,
                                                             example_set const& set) {
  auto const& loader = data.train_loader;
  auto const rows = static_cast<std::size_t>(data.global_train_batch_size);
  finetune::batch_order_options out{.rows = rows,
                                    .row_tokens = static_cast<std::size_t>(loader.max_seq_len),
                                    .packing_ratio = packing_ratio_of(loader, set.lengths(), rows),
                                    .shuffle = loader.shuffle,
                                    .seed = loader.shuffle_seed};
  if (auto const& packing = loader.finetuning->packing; packing && packing->leftover_bins)
    out.leftover_bins = static_cast<std::size_t>(*packing->leftover_bins);
  if (data.train_subset_num_batches > 0)
    out.epoch_batches = static_cast<std::size_t>(data.train_subset_num_batches);
  return out;
}

std::vector<std::string> describe_packing(run_examples const& examples, data_config const& data,
                                          evaluation_config const& evaluation) {
  std::vector<std::string> out;
  auto const add = [&](std::string const& name, loader_config const& loader,
                       std::shared_ptr<example_set const> const& set, std::int64_t rows) {
    if (auto const ratio = detail::automatic_packing_ratio(loader, set.get(), rows))
      out.push_back(concat(name, ": packing_ratio auto is ", *ratio, ", ",
                           static_cast<std::int64_t>(static_cast<double>(rows) * *ratio),
                           " examples for ", rows, " rows"));
  };
  add("train_loader", data.train_loader, examples.train, data.global_train_batch_size);
  for (std::size_t i = 0; i < examples.evaluation.size(); ++i)
    add(eval_loader_name(data.eval_loaders[i]), data.eval_loaders[i], examples.evaluation[i],
        evaluation.device_eval_batch_size);
  return out;
}

std::vector<finetune::bin> evaluation_rows(example_set const& set, loader_config const& loader,
                                           index device_batch) {
  auto const lengths = set.lengths();
  auto const rows = static_cast<std::size_t>(device_batch);
  auto const ratio = packing_ratio_of(loader, lengths, rows);
  std::vector<finetune::bin> out;
  if (ratio == 1) {
    for (std::size_t i = 0; i < lengths.size(); ++i) out.push_back({lengths[i], {i}});
    return out;
  }
  finetune::bin_packer packer(rows, static_cast<std::size_t>(loader.max_seq_len));
  std::vector<std::size_t> examples(lengths.size());
  std::iota(examples.begin(), examples.end(), std::size_t{0});
  auto const drawn = static_cast<std::size_t>(static_cast<double>(rows) * ratio);
  auto const take = [&](std::vector<finetune::bin> bins) {
    out.insert(out.end(), std::make_move_iterator(bins.begin()),
               std::make_move_iterator(bins.end()));
  };
  for (std::size_t begin = 0; begin < examples.size(); begin += drawn)
    take(packer.pack(std::span(examples).subspan(begin, std::min(drawn, examples.size() - begin)),
                     lengths));
  while (!packer.leftover().empty()) take(packer.flush());
  return out;
}

example_evaluation::example_evaluation(example_set const& set, loader_config const& loader,
                                       index device_batch, int rank, int ranks, index max_batches)
    : set_(set),
      length_(loader.max_seq_len),
      rows_(evaluation_rows(set, loader, device_batch)),
      rank_rows_(static_cast<std::size_t>(device_batch)),
      first_row_(rank_rows_ * static_cast<std::size_t>(rank)),
      stride_(rank_rows_ * static_cast<std::size_t>(ranks)) {
  if (max_batches >= 0)
    rows_.resize(std::min(rows_.size(), static_cast<std::size_t>(max_batches) * rank_rows_));
}

std::optional<sequences> example_evaluation::next() {
  if (position_ >= rows_.size()) return std::nullopt;
  auto const begin = std::min(position_ + first_row_, rows_.size());
  auto const end = std::min(begin + rank_rows_, rows_.size());
  position_ += stride_;
  return rows_of(set_, std::span(rows_).subspan(begin, end - begin), length_);
}

}  // namespace mpt

namespace mpt::detail {

std::optional<double> automatic_packing_ratio(loader_config const& loader,
                                              example_set const* examples, std::int64_t rows) {
  bool const is_auto = examples != nullptr && loader.finetuning && loader.finetuning->packing &&
                       !loader.finetuning->packing->ratio;
  if (!is_auto) return std::nullopt;
  return packing_ratio_of(loader, examples->lengths(), static_cast<std::size_t>(rows));
}

}  // namespace mpt::detail
