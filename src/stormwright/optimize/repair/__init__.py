"""A placement that asks too much of nodes is mended by few changes: the steepest step on the most overloaded node.

::

    mending   what is placed where, what nodes hold beyond what they have, which is the hardest hit
    best      the step that takes most overload off a node
    loops     step after step; a topology taken out and put back

Traffic plays no part here.
"""
