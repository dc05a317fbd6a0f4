// The model in Python, for transformers. It is written next to the weights of every form that
// transformers' own MptForCausalLM lacks, and transformers loads it with trust_remote_code.
//
// The modules are src/mpt/hf/remote_code/*.py; CMake puts their text into the library. One module
// defines the configuration, the other the computation. Both follow mpt/model and differ from its
// golden values only by rounding (tests/reference/check_forms.py). They support inference with
// cached keys and values, training, also by transformers' Trainer (check_trainer.py), and an
// attention mask with padding on either side.
#pragma once

#include <string_view>

namespace mpt::hf {

extern std::string_view const remote_configuration;  ///< configuration_parallel_mpt.py
extern std::string_view const remote_modeling;       ///< modeling_parallel_mpt.py

}  // namespace mpt::hf
