"""GPUs: kernels as launches, priced by a roofline or by measured rates."""
