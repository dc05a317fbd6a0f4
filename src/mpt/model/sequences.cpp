#include <mpt/model/sequences.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace mpt {

sequences::sequences(std::vector<std::int32_t> ids, index length, document_separator separator)
    : length_(length), whole_length_(length), ids_(std::move(ids)), labels_(ids_.size(), -100) {
  require(length > 0 && static_cast<index>(ids_.size()) % length == 0, "a batch of ", ids_.size(),
          " ids does not divide into sequences of ", length);
  for (std::size_t i = 0; i + 1 < ids_.size(); ++i)
    if (static_cast<index>(i + 1) % length != 0) labels_[i] = ids_[i + 1];
  count_labels();
  if (separator.boundary != document_separator::side::none) find_documents(separator);
}

finetune::rows sequences::rows() const {
  require(length_ == whole_length_, "parts of sequences are no rows");
  return {.count = static_cast<std::size_t>(count()),
          .length = static_cast<std::size_t>(length_),
          .ids = ids_,
          .labels = labels_,
          .document_begins = document_begins_};
}

index sequences::count() const {
  return length_ == 0 ? 0 : static_cast<index>(ids_.size()) / length_;
}

sequences sequences::divided(parallel::context_parallel::sequence_partition const& part) const {
  require(part.whole() == length_, "a partition of sequences of ", part.whole(),
          " ids does not fit sequences of ", length_);
  sequences out;
  out.length_ = part.length();
  out.whole_length_ = whole_length_;
  out.ids_ = part.pick(std::span(ids_));
  out.labels_ = part.pick(std::span(labels_));
  out.sequence_tokens_ = sequence_tokens_;
  out.document_begins_ = document_begins_;
  return out;
}

sequences sequences::filled_up(index wanted, index length) const {
  auto out = *this;
  if (out.length_ == 0) out.length_ = out.whole_length_ = length;
  auto const size = static_cast<std::size_t>(std::max(wanted, count()) * out.length_);
  out.ids_.resize(size, 0);
  out.labels_.resize(size, -100);
  out.sequence_tokens_.resize(static_cast<std::size_t>(std::max(wanted, count())), 0);
  if (!document_begins_.empty())
    out.document_begins_.resize(
        size / static_cast<std::size_t>(out.length_) * static_cast<std::size_t>(out.whole_length_),
        0);
  return out;
}

microbatch sequences::view(parallel::data::share part) const {
  index const rows = part.size() * length_;
  vector_view<std::int32_t const> const labels{labels_.data() + part.begin * length_, {rows}};
  auto const loss_tokens =
      std::ranges::count_if(labels.span(), [](std::int32_t label) { return label >= 0; });
  return {.ids = {ids_.data() + part.begin * length_, {rows}},
          .labels = labels,
          .sequences = part.size(),
          .length = length_,
          .loss_tokens = loss_tokens,
          .sequence_tokens = std::span(sequence_tokens_)
                                 .subspan(static_cast<std::size_t>(part.begin),
                                          static_cast<std::size_t>(part.size())),
          .document_begins = documents(part)};
}

microbatch sequences::shape_of(index count, index length) {
  index const rows = count * length;
  return {.ids = {nullptr, {rows}},
          .labels = {nullptr, {rows}},
          .sequences = count,
          .length = length,
          .loss_tokens = 0};
}

parallel::packed_documents sequences::documents(parallel::data::share part) const {
  if (document_begins_.empty()) return {};
  auto const begins = std::span(document_begins_)
                          .subspan(static_cast<std::size_t>(part.begin * whole_length_),
                                   static_cast<std::size_t>(part.size() * whole_length_));
  index count = 0;
  for (std::size_t i = 0; i < begins.size(); ++i)
    if (begins[i] == static_cast<index>(i) % whole_length_) ++count;
  return {begins, count};
}

void sequences::count_labels() {
  for (index i = 0; i < count(); ++i)
    sequence_tokens_.push_back(static_cast<std::int32_t>(
        std::count_if(labels_.begin() + i * length_, labels_.begin() + (i + 1) * length_,
                      [](std::int32_t label) { return label >= 0; })));
}

void sequences::find_documents(document_separator separator) {
  bool const ends = separator.boundary == document_separator::side::ends_document;
  document_begins_.resize(ids_.size());
  index begin = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    index const position = static_cast<index>(i) % length_;
    if (position == 0) begin = 0;
    if (position > 0 && ids_[ends ? i - 1 : i] == separator.id) begin = position;
    document_begins_[i] = static_cast<std::int32_t>(begin);
  }
}

}  // namespace mpt
