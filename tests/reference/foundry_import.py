"""Makes LLM Foundry's MPT modeling code and Composer's optimizer importable without their heavy dependencies.

Both packages import their whole world (trainer, loggers, cloud clients, flash-attention) in their `__init__.py`.
Here their package objects are created empty, with the right `__path__`, so that only the modules that are asked for
are executed, unchanged. Nothing numerical is replaced. What is stubbed:

* the `__init__.py` of the packages listed in PACKAGES (not executed);
* `composer.models.HuggingFaceModel`: an empty base class (only ComposerMPTCausalLM derives from it);
* `composer.utils.dist`: an empty module (only used by multi-process code);
* `torch.optim.optimizer.required`: re-created where newer PyTorch has dropped it (only a default-value marker of SGD).
"""

import importlib
import importlib.util
import sys
import types

PACKAGES = {
    "llmfoundry": [
        "llmfoundry", "llmfoundry.callbacks", "llmfoundry.models", "llmfoundry.models.layers", "llmfoundry.models.mpt",
        "llmfoundry.models.utils", "llmfoundry.optim", "llmfoundry.utils",
    ],
    "composer": ["composer", "composer.algorithms", "composer.algorithms.gradient_clipping", "composer.callbacks",
                 "composer.core", "composer.loggers", "composer.models", "composer.optim", "composer.utils"],
}


def _empty_packages(root: str) -> None:
    spec = importlib.util.find_spec(root)  # does not execute the package
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{root} is not installed; see README.md next to this file")
    base = list(spec.submodule_search_locations)[0]
    for name in PACKAGES[root]:
        module = types.ModuleType(name)
        module.__path__ = [base + "".join("/" + part for part in name.split(".")[1:])]
        sys.modules[name] = module
        if "." in name:
            parent, child = name.rsplit(".", 1)
            setattr(sys.modules[parent], child, module)


def prepare() -> None:
    """Installs the shims; after it, `import llmfoundry.models.mpt.modeling_mpt` and the like work."""
    if "llmfoundry" in sys.modules or "composer" in sys.modules:
        return
    _empty_packages("composer")
    _empty_packages("llmfoundry")

    import torch.optim.optimizer as torch_optimizer
    if not hasattr(torch_optimizer, "required"):
        torch_optimizer.required = object()

    distributed = types.ModuleType("composer.utils.dist")
    sys.modules["composer.utils.dist"] = distributed
    sys.modules["composer.utils"].dist = distributed
    sys.modules["composer.models"].HuggingFaceModel = type("HuggingFaceModel", (), {})
    # The real StringEnum, Time, Timestamp: small modules without further dependencies.
    sys.modules["composer.utils"].StringEnum = importlib.import_module("composer.utils.string_enum").StringEnum
    time = importlib.import_module("composer.core.time")
    core = sys.modules["composer.core"]
    core.Time, core.TimeUnit, core.Timestamp, core.State = time.Time, time.TimeUnit, time.Timestamp, object
    # Base classes and names that algorithms and callbacks mention, and never call here.
    core.Algorithm = core.Callback = core.Event = object
    loggers = sys.modules["composer.loggers"]
    loggers.Logger, loggers.MosaicMLLogger = object, type("MosaicMLLogger", (), {})
    sys.modules["composer.models"].ComposerModel = object
    distributed.get_global_rank = lambda: 0
    scheduler = importlib.import_module("composer.optim.scheduler")
    optim = sys.modules["composer.optim"]
    optim.ComposerScheduler, optim.LinearScheduler = scheduler.ComposerScheduler, scheduler.LinearScheduler
