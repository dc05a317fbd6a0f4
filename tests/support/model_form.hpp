// The two forms of MPT that tests of whole models on other devices train.
#pragma once

#include <mpt/config/model/sizes.hpp>

namespace test {

/// A model with the sizes of `m`: form a with learned positions and biases, or with `with_alibi`
/// form b with ALiBi, no biases and packed documents.
[[nodiscard]] inline mpt::model_config model_form(mpt::model_config m, bool with_alibi) {
  m.resid_pdrop = 0.25;
  if (with_alibi) {
    auto const words = m.vocab_size;
    m = mpt::hub_form(m);
    m.vocab_size = words;
    m.attn.attn_uses_sequence_id = true;
  }
  check_model(m, "");
  return m;
}

}  // namespace test
